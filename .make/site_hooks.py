"""What mkdocs does besides: pages of files outside of docs/ and of the code, and links where the prose names a document."""

# ruff: noqa: INP001 - a script of the Makefile, in no package

import os
import posixpath
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_pages import ADDED, PAGES, TEST

ROOT = Path(__file__).parents[1]
FROM_ELSEWHERE = {
    "overview.md": "README.md",
    "stacks.md": "infra/README.md",
    "ruby.md": "contrib/ruby/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Page of the site → the file that it is made of."""

BOOSTS = {
    "how_to/deploy.md": 6,
    "how_to/schedules.md": 6,
    "how_to/": 3,
    "tutorial/": 2,
    "reference/python/": 0.5,
    "reference/": 1.5,
}
"""Beginning of a path, the first that fits → how much more a hit of the search counts there; 1 elsewhere. Decisions are not found: they say why, not how."""
RECORDING = re.compile(
    r'<div class="recording">.*?<code>(?P<text>.*?)</code></pre></div>\s*</div>', re.DOTALL
)

_FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(
    r"(?<!\[)`(?P<path>docs/[\w/]+\.md|[\w/]*(?:README|CONTRIBUTING|CHANGELOG)\.md)`(?!\])"
)
_CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
_LONG = re.compile(r"(?<![^\s>])[^\s<>\"]{12,}(?![^<]*>)")
"""A word of a text, not of a tag."""
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """The version below each page; with `SITE_REPO_URL`, which this repository does not know, a link that edits it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    config.copyright = f"Kiqbridge {version}, MIT licence"
    if url := os.environ.get("SITE_REPO_URL"):
        config.repo_url, config.edit_uri = url, "edit/main/docs/"
        config.theme["features"].append("content.action.edit")


def on_page_content(html: str, page: Page, **_more: object) -> str:
    """Let the recorded terminal play: each line appears after the one before, by CSS alone."""
    return RECORDING.sub(_played, html) if page.file.src_uri == "index.md" else html


def _played(block: re.Match[str]) -> str:
    lines = re.sub(r"<[^>]+>", "", block["text"]).strip("\n").split("\n")
    shown = "".join(
        f'<span style="--line: {number}">{line or " "}</span>' for number, line in enumerate(lines)
    )
    return (
        f'<div class="recording" id="recording"><pre tabindex="0"><code>{shown}</code></pre></div>'
    )


def on_post_page(output: str, **_more: object) -> str:
    """Let long names in tables break between their parts only."""
    return _CELL.sub(lambda cell: _LONG.sub(_breakable, cell[0]), output)


def _breakable(name: re.Match[str]) -> str:
    return re.sub(r"[_./:=|]+(?=[A-Za-z])", r"\g<0><wbr>", name[0])


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: what each page is about, for programs that read."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for section, entries in ((next(iter(each)), next(iter(each.values()))) for each in config.nav):
        lines += [f"## {section}", "", *map(_line, _pages_in(entries)), ""]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def _pages_in(entries: object) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [page for each in values for page in _pages_in(each)]  # type: ignore[attr-defined]


def _line(page: str) -> str:
    return f"- [{_titles.get(page, page)}]({page.removesuffix('.md')}.html)"


_titles: dict[str, str] = {}


@cache
def _changes() -> dict[str, str]:
    """File → the day of its last commit; none in a tree without history."""
    log = subprocess.run(  # noqa: S603 - without arguments of anybody
        ["git", "log", "--format=%cs", "--name-only", "--", "docs", *FROM_ELSEWHERE.values()],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = {}
    day = ""
    for line in filter(None, log.stdout.splitlines()):
        if re.fullmatch(r"\d{4}-\d\d-\d\d", line):
            day = line
        else:
            found.setdefault(line, day)
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside of docs/, and of the code."""
    made = {page: made() for page, made in PAGES.items()}
    for page, source in FROM_ELSEWHERE.items():
        made[page] = (ROOT / source).read_text(encoding="utf-8")
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_more: object) -> str:
    """Make links of the documents that the prose names, and of links to files outside of docs/."""
    own = page.file.src_uri
    if own in ADDED:
        markdown = f"{markdown}\n{ADDED[own]()}"
    source = FROM_ELSEWHERE.get(own, f"docs/{own}")
    boost = next((boost for path, boost in BOOSTS.items() if own.startswith(path)), 1)
    is_decision = own.startswith("decisions/")
    page.meta.setdefault("search", {"exclude": True} if is_decision else {"boost": boost})
    if day := _changes().get(source):
        page.meta.setdefault("revision_date", day)
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    _titles[own] = heading[1] if heading else own

    def relative(path: str) -> str | None:
        """From this page to the page of a file, named from the root of the repository; None if it has none."""
        pages = {made_of: name for name, made_of in FROM_ELSEWHERE.items()}
        target = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if target is None or files.get_file_from_path(target) is None:
            return None
        return posixpath.relpath(target, posixpath.dirname(own) or ".")

    def named(match: re.Match[str]) -> str:
        to = relative(match["path"])
        return f"[`{match['path']}`]({to})" if to else match[0]

    def linked(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        test = TEST.fullmatch(match["text"])
        if test and path.startswith("tests/"):
            proofs = relative("docs/explanation/proofs.md")
            return f"[{test[1].replace('_', ' ')}]({proofs}#test_{test[1]})"
        to = relative(path)
        if to:
            return f"[{match['text']}]({to}{match['anchor'] or ''})"
        # A file of the repository that is no page: its name is all that a reader of the site has of it.
        return match[0] if path.startswith("docs/") else match["text"]

    parts: list[str] = []
    end = 0
    for fence in _FENCES.finditer(markdown):
        parts += [_NAMED.sub(named, _LINK.sub(linked, markdown[end : fence.start()])), fence[0]]
        end = fence.end()
    return "".join([*parts, _NAMED.sub(named, _LINK.sub(linked, markdown[end:]))])
