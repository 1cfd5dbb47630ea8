"""Each § in code, tests and documents leads to a section that is there."""

import re

import pytest
from support.citations import DEFAULT, Citation, citations, dead_ends, sections_of, texts
from support.documents import ROOT

HERE = "tests/test_citations.py"
FINDER = "tests/support/citations.py"


def test_each_citation_leads_to_a_section():
    found = {
        name: dead
        for name, text in texts()
        if name not in {HERE, FINDER} and (dead := dead_ends(text))
    }

    assert found == {}, "name the document in front of the § if it is not docs/protocol.md"


def test_the_citations_of_the_code_are_found():
    found = [
        each for name, text in texts() if name.startswith("worker/") for each in citations(text)
    ]

    assert len(found) > 100
    assert {each.document for each in found} >= {DEFAULT, "reliability.md"}


@pytest.mark.parametrize("document", [DEFAULT, "reliability.md"])
def test_the_sections_of_a_document_are_numbered_without_gaps(document):
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    numbers = re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE)

    expected, part, item = [], 0, 0
    for number in numbers:
        part, item = (part, item + 1) if "." in number else (part + 1, 0)
        expected.append(f"{part}.{item}" if "." in number else f"{part}")

    assert len(numbers) > 10
    assert numbers == expected
    assert sections_of(document).keys() == set(numbers)


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("as §99 says", ["protocol.md §99"]),
        ("(protocol §8.9)", ["protocol.md §8.9"]),
        ("§ 77.1", ["protocol.md §77.1"]),
        ("§13.2.99", ["protocol.md §13.2.99"]),
        ("§8.2.1, which has no steps", ["protocol.md §8.2.1"]),
        ("§§ 3, 4 and 88", ["protocol.md §88"]),
        ("§§ 25 to 28", ["protocol.md §27", "protocol.md §28"]),
        ("§25\u201327", ["protocol.md §27"]),
        ("§3.1\u20133.9", ["protocol.md §3.9"]),
        ("§3 to §55", ["protocol.md §55"]),
        ("reliability.md §42", ["reliability.md §42"]),
        ("[x](docs/reliability.md) §3.9", ["reliability.md §3.9"]),
        ("reliability §42", ["reliability.md §42"]),
        ("nowhere.md §1", ["nowhere.md §1"]),
        ("engine.md §1", ["engine.md §1"]),
        ("see § for this", ["§ without a number"]),
        ("§", ["§ without a number"]),
    ],
)
def test_a_planted_citation_that_leads_nowhere_is_found(text, dead):
    assert dead_ends(text) == dead


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("§8", ["8"]),
        ("protocol §6), and §8.2", ["6", "8.2"]),
        ("(protocol §5.4, §7.1, §15.5)", ["5.4", "7.1", "15.5"]),
        ("protocol §3 to §5", ["3", "5"]),
        ("§§ 3, 4 and 6", ["3", "4", "6"]),
        ("§§3\u20135", ["3", "4", "5"]),
        ("§13.2.9", ["13.2.9"]),
        ("§5.3 step 1, 25 by default", ["5.3"]),
        ("§n.n is a section", []),
        ("8.2 is a version", []),
    ],
)
def test_what_is_cited_rightly_is_read_and_not_reported(text, cited):
    assert citations(text) == [Citation(DEFAULT, number) for number in cited]
    assert dead_ends(text) == []


def test_a_document_that_is_named_is_the_one_that_is_looked_at():
    assert citations("reliability.md §3.1") == [Citation("reliability.md", "3.1")]
    assert citations("`reliability.md`, §3.1") == [Citation("reliability.md", "3.1")]
    assert dead_ends("reliability.md §3.1") == []
