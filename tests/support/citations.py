"""Finding citations such as §8.2, in any text of the repository, and the sections they lead to.

A bare one is of docs/protocol.md. One that has a document's name in front of it (`reliability.md §3`,
`reliability §3`) is of that document. §13.2.9 is step 9 of §13.2 where that has a numbered list. Lists and
ranges need §§: `§§ 3, 4 and 6`, `§§ 3 to 5`; or each number has its own: `§3 to §5`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from support.documents import ROOT

DEFAULT = "protocol.md"
_NUMBER = r"\d+(?:\.\d+)*"
_NAMED = r"(?:(?P<document>[\w/.-]+\.md|\b[a-z_]+)[`)\]]*,? )?"
_MANY = re.compile(
    rf"{_NAMED}§§ ?(?P<list>{_NUMBER}(?:(?:, | and |, and | or | to |\u2013|-){_NUMBER})*)"
)
_ONE = re.compile(rf"{_NAMED}(?<!§)§ ?(?P<number>{_NUMBER})(?P<range>[\u2013-]{_NUMBER})?")
_SIGN = re.compile(r"§(?!§)")
_PLACEHOLDER = re.compile(r"§ ?n\b")
_HEADING = re.compile(rf"^#{{2,6}} ({_NUMBER})\.? ", re.MULTILINE)
_STEP = re.compile(r"^(\d+)\. ", re.MULTILINE)
_SUFFIXES = {".py", ".lua", ".md", ".toml", ".yaml", ".yml", ".sh", ".service"}
_FOLDERS = ("docs", "infra", "lambdas", "tests", "worker")


@dataclass(frozen=True, slots=True)
class Citation:
    """One number that was cited; `document` is a file's name in docs/."""

    document: str
    number: str

    def __str__(self) -> str:
        return f"{self.document} §{self.number}"


def texts() -> Iterator[tuple[str, str]]:
    """Path and citing lines of each file of ours that may cite a section."""
    paths = [path for name in _FOLDERS for path in sorted((ROOT / name).rglob("*"))]
    for path in [*sorted(ROOT.glob("*")), *paths]:
        if path.is_file() and (path.suffix in _SUFFIXES or path.name == "Makefile"):
            lines = path.read_text(encoding="utf-8").splitlines()
            yield (
                path.relative_to(ROOT).as_posix(),
                "\n".join(each for each in lines if "§" in each),
            )


def citations(text: str) -> list[Citation]:
    """All that a text cites, ends of ranges included and what lies between them."""
    found = []
    for many in _MANY.finditer(text):
        document = _document(many["document"])
        for part in re.split(r", and |, | and | or ", many["list"]):
            found += [Citation(document, number) for number in _between(part)]
    for one in _ONE.finditer(text):
        document = _document(one["document"])
        part = one["number"] + (one["range"] or "")
        found += [Citation(document, number) for number in _between(part)]
    return found


def dead_ends(text: str) -> list[str]:
    """What a text cites that is not there, and signs that cite nothing."""
    missing = [str(each) for each in citations(text) if not is_there(each)]
    cited = len(_MANY.findall(text)) + len(_ONE.findall(text)) + len(_PLACEHOLDER.findall(text))
    signs = len(_SIGN.findall(text))
    return missing + ["§ without a number"] * (signs - cited)


def is_there(citation: Citation) -> bool:
    """Whether the document has this section, or this step of a section."""
    sections = sections_of(citation.document)
    if citation.number in sections:
        return True
    section, _, step = citation.number.rpartition(".")
    return section in sections and step in _STEP.findall(sections[section])


@cache
def sections_of(document: str) -> dict[str, str]:
    """Number of each numbered section → its text up to the next one; empty if there is no such file."""
    path = ROOT / "docs" / document
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    return {
        heading[1]: text[heading.end() : end] for heading, end in zip(headings, ends, strict=True)
    }


def _document(name: str | None) -> str:
    """The document of a name in front of a citation, which may be an ordinary word."""
    if name is None:
        return DEFAULT
    if name.endswith(".md"):
        return name.rpartition("/")[2]
    return f"{name}.md" if (ROOT / "docs" / f"{name}.md").is_file() else DEFAULT


def _between(part: str) -> list[str]:
    """A number as it is; of a range its two ends, and what lies between if both are whole."""
    first, *rest = re.split(r" to |\u2013|-", part)
    if not rest:
        return [first]
    [last] = rest
    if "." in first or "." in last:
        return [first, last]
    return [str(number) for number in range(int(first), int(last) + 1)] or [first, last]
