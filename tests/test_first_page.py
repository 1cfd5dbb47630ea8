"""docs/index.md, the first page of the site: our cells are tests, its numbers are those of the benchmarks."""

import ast
import re

import pytest
from benchmarks.outcome import cells
from benchmarks.report import load
from support.documents import ROOT, rows

TEXT = (ROOT / "docs/index.md").read_text(encoding="utf-8")
HEAD, *TABLE = rows(TEXT.split("## Beside other systems")[1])
MEASURED = {
    "Jobs that do nothing": {
        "Sidekiq": "no-op jobs, jobs/s",
        "Celery": "no-op jobs beside celery",
        "taskiq": "no-op jobs beside taskiq",
    },
    "Jobs of 10 ms, 50 threads": {"Sidekiq": "jobs that sleep 10 ms, 50 threads, jobs/s"},
}
"""Row → system → how its line of the stored benchmarks begins."""
SAID = re.compile(
    r"yes|no|\u2013|paid \((Pro|Enterprise)\)|by a (plug-in|setting): [\w-]+|not measured|[\d.]+ x"
)
"""What a cell about another system may say, link or not."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_a_cell_of_ours_is_a_test_and_one_of_others_says_no_more_than_it_should(row):
    _, ours, *others = row
    named = re.fullmatch(r"(?:no: )?\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", ours)

    assert named, ours
    tree = ast.parse((ROOT / named[2]).read_text(encoding="utf-8"))
    assert named[1] in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    assert len(row) == len(HEAD)
    said = [re.sub(r"\[(.+)\]\(https://\S+\)", r"\1", cell) for cell in others]
    assert [cell for cell in said if not SAID.fullmatch(cell)] == []


def test_the_ratios_are_those_of_the_benchmarks():
    measured = [cells(line) for line in load()[1]]
    expected = {}
    for name, systems in MEASURED.items():
        for system, begins in systems.items():
            [ratio] = [float(row[3]) for row in measured if row[0].startswith(begins)]
            expected[name, system] = f"{ratio:.{0 if ratio > 2 else 1}f} x"

    shown = {
        (re.sub(r"\[(.+?)\].*", r"\1", row[0]), system): cell
        for row in TABLE
        for system, cell in zip(HEAD, row, strict=True)
        if re.fullmatch(r"[\d.]+ x", cell)
    }

    assert shown == expected


def test_each_system_has_the_version_that_was_looked_at():
    [line] = re.findall(r"^Looked at in .*", TEXT, re.MULTILINE)

    assert [name for name in HEAD[2:] if not re.search(rf"{name} (\d|\(.*\d)", line)] == []


def test_it_has_the_two_commands_and_three_pictures_in_light_and_dark_that_are_described():
    assert re.findall(r"^make (\w+)", TEXT, re.MULTILINE) == ["up", "test"]
    pictures = re.findall(r"!\[([^\]]{40,})\]\((images/[^)#]+)[^)]*\)", TEXT)
    assert len({path for _, path in pictures if (ROOT / "docs" / path).exists()}) == 6
