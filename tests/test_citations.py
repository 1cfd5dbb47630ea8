"""Each § in code, tests and documents leads to a section that is there.

A bare one (§8.2) is of docs/protocol.md. One that has a document's name in front of it (`reliability.md §3`,
`reliability §3`) is of that document. §13.2.9 is step 9 of §13.2 where that has a numbered list.
"""

import re
from functools import cache

import pytest
from support.documents import ROOT

DEFAULT = "protocol.md"
FOLDERS = ("docs", "infra", "lambdas", "tests", "worker")
SUFFIXES = {".py", ".lua", ".md", ".toml", ".yaml", ".yml", ".sh", ".service"}
CITED = re.compile(r"(?:([\w/.-]+\.md|\b[a-z_]+)[`)\]]*,? )?§ ?(n\b|[\d.]*\d)?")
SECTION = re.compile(r"^#{2,6} (\d+(?:\.\d+)*)\.? (.*?)(?=^#{2,6} \d|\Z)", re.MULTILINE | re.DOTALL)


@cache
def sections_of(document):
    """Number of each section of a file in docs/ → its text up to the next one; none if there is no such file."""
    path = next((ROOT / "docs").rglob(document), None)
    return dict(SECTION.findall(path.read_text(encoding="utf-8"))) if path else {}


def citations(text):
    """Document and number of each."""
    for name, number in CITED.findall(text):
        file = name.rpartition("/")[2].removesuffix(".md") + ".md"
        is_document = name.endswith(".md") or (name and any((ROOT / "docs").rglob(file)))
        if number != "n":
            yield file if is_document else DEFAULT, number


def dead_ends(text):
    """Those that lead nowhere."""
    return [
        f"{document} §{number}"
        for document, number in citations(text)
        if not is_there(document, number)
    ]


def is_there(document, number):
    sections = sections_of(document)
    section, _, step = number.rpartition(".")
    return number in sections or bool(
        re.search(rf"^{step}\. ", sections.get(section, ""), re.MULTILINE)
    )


def test_each_citation_leads_to_a_section():
    patterns = ("*", *(f"{name}/**/*" for name in FOLDERS))
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if path.suffix in SUFFIXES
    }
    del texts["tests/test_citations.py"]
    found = {name: dead for name, text in texts.items() if (dead := dead_ends(text))}

    assert found == {}, "name the document in front of the § if it is not docs/protocol.md"
    code = "".join(text for name, text in texts.items() if name.startswith("worker/"))
    cited = [document for document, _ in citations(code)]
    assert len(cited) > 100
    assert {*cited} >= {DEFAULT, "reliability.md"}


@pytest.mark.parametrize("document", [DEFAULT, "reliability.md"])
def test_the_sections_of_a_document_are_numbered_without_gaps(document):
    expected, part, item = [], 0, 0
    for number in sections_of(document):
        part, item = (part, item + 1) if "." in number else (part + 1, 0)
        expected.append(f"{part}.{item}" if "." in number else f"{part}")

    assert len(expected) > 10
    assert list(sections_of(document)) == expected


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("as §99 says", ["protocol.md §99"]),
        ("(protocol §8.9)", ["protocol.md §8.9"]),
        ("§13.2.99", ["protocol.md §13.2.99"]),
        ("§8.2.1, which has no steps", ["protocol.md §8.2.1"]),
        ("reliability.md §42", ["reliability.md §42"]),
        ("[x](docs/reliability.md) §3.9", ["reliability.md §3.9"]),
        ("reliability §42", ["reliability.md §42"]),
        ("nowhere.md §1", ["nowhere.md §1"]),
        ("engine.md §1", ["engine.md §1"]),
        ("see § for this", ["protocol.md §"]),
        ("(protocol §5.4, §7.1, §15.5), §13.2.9 and `reliability.md`, §3.1. 8.2 is a version", []),
        ("§n.n is a section", []),
    ],
)
def test_what_leads_nowhere_is_found_and_nothing_else(text, dead):
    assert dead_ends(text) == dead
