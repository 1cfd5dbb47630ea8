"""docs/explanation/choose.md: its numbers are those of the stored benchmarks, and what it says of us has a source."""

import re

import pytest
from benchmarks.outcome import cells as cells_of
from benchmarks.report import load
from support.documents import ROOT, rows

TEXT = (ROOT / "docs/explanation/choose.md").read_text(encoding="utf-8")
NOISE = 0.3
"""How far a rounded number may be from that of a new run."""


def number(cell):
    """The first one of `Sidekiq 13,102 (12,000-14,075)`; None of `-`."""
    found = re.search(r"(?<![\d.])\d[\d,.]*", cell)
    return float(found[0].replace(",", "")) if found else None


def test_the_numbers_are_those_of_the_benchmarks():
    measured = {
        re.sub(r" [\d.]+(?=, )", "", name): cells for name, *cells in map(cells_of, load()[1])
    }
    shown = [
        row for row in rows(TEXT.split("## Numbers")[1].split("## Terms")[0]) if row[0] != "measure"
    ]

    assert len(shown) > 5
    for name, *cells in shown:
        ours, beside = measured[name][:2]
        assert number(cells[0]) == pytest.approx(number(ours), rel=NOISE), name
        assert cells[1].split()[0] == beside.split()[0], name
        if number(cells[1]):
            assert number(cells[1]) == pytest.approx(number(beside), rel=NOISE), name


def test_each_row_and_item_about_us_leads_to_a_document_or_a_test():
    lines = TEXT.split("## Numbers")[0].splitlines()
    ours = [line for line in lines if line.startswith(("| Kiqbridge", "- **"))]
    ours += [line for line in lines if re.match(r"\| [^|]+ \| Kiqbridge", line)]

    assert len(ours) > 10
    assert [line for line in ours if not re.search(r"\]\((?!http)[^)]+\)|`tests/", line)] == []
