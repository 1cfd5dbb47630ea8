"""What mkdocs does besides: pages of files outside of docs/ and of the code, and links where the prose names a document."""

# ruff: noqa: INP001 - a script of the Makefile, in no package

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_pages import ADDED, PAGES, TEST

ROOT = Path(__file__).parents[1]
FROM_ELSEWHERE = {
    "overview.md": "README.md",
    "stacks.md": "infra/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Page of the site → the file that it is made of."""

_FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(
    r"(?<!\[)`(?P<path>docs/[\w/]+\.md|[\w/]*(?:README|CONTRIBUTING|CHANGELOG)\.md)`(?!\])"
)
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


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
