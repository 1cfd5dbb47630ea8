"""The page and the picture about changes of the clocks say what happens."""

import contextlib
import io
import re
import shlex
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dst_picture import EXPRESSIONS, GAP, REPEAT, firings, picture

from kiqbridge.commands.cli import main
from kiqbridge.schedule.cron import parse

TEXT = (Path(__file__).parents[3] / "docs/explanation/schedules.md").read_text(encoding="utf-8")
PAGE = TEXT.partition("\n## When the clocks change\n")[2]
EXAMPLES = re.findall(r"```sh\nkiqbridge ([^\n]*)\n```\n\n```text\n([^`]*)```", PAGE)
PARIS = "Europe/Paris"
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)


def fired(expression, timezone, night):
    """What fires from midnight in UTC on, for six hours."""
    schedule = parse(expression, timezone, start=datetime(2026, 1, 1, tzinfo=UTC))
    return list(schedule.between(night - timedelta(seconds=1), night + timedelta(hours=6)))


def test_the_page_has_examples():
    assert len(EXAMPLES) == PAGE.count("kiqbridge schedule next") == 2


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(command, shown):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(shlex.split(command)) == 0

    assert output.getvalue() == shown


class TestTheTable:
    """Its rows about us; those about others say where they are from."""

    def test_a_daily_job(self):
        daily = "cron(30 2 * * ? *)"

        assert fired(daily, PARIS, SPRING) == []
        assert fired(daily, PARIS, AUTUMN) == [AUTUMN + timedelta(minutes=30)]
        assert fired(daily, "UTC", SPRING) == [SPRING + timedelta(hours=2, minutes=30)]
        assert fired(daily, "UTC", AUTUMN) == [AUTUMN + timedelta(hours=2, minutes=30)]

    @pytest.mark.parametrize(
        ("expression", "timezone", "count"),
        [
            ("cron(0/30 * * * ? *)", PARIS, 13 - 2),
            ("cron(0/30 * * * ? *)", "UTC", 13),
            ("rate(30 minutes)", PARIS, 13),
        ],
    )
    def test_every_thirty_minutes(self, expression, timezone, count):
        assert len(fired(expression, timezone, AUTUMN)) == count


FILE = Path(__file__).parents[3] / "docs/images/dst.svg"
HALF_PAST_TWO, THREE, EACH_HOUR = EXPRESSIONS


def test_the_file_is_what_the_program_draws_with_a_title_for_who_cannot_see_it():
    assert FILE.read_text("utf-8") == picture(), "run make docs"
    root = ET.fromstring(picture())
    assert root.tag.endswith("svg")
    assert root.get("role") == "img"
    assert "daylight saving time" in root.get("aria-label")


@pytest.mark.parametrize(
    ("night", "expression", "expected"),
    [
        (GAP, HALF_PAST_TWO, []),
        (GAP, THREE, [datetime(2026, 3, 29, 1, tzinfo=UTC)]),
        (REPEAT, HALF_PAST_TWO, [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]),
        (REPEAT, THREE, [datetime(2026, 10, 25, 2, tzinfo=UTC)]),
    ],
)
def test_what_fires_in_a_night(night, expression, expected):
    assert firings(expression, night) == expected


@pytest.mark.parametrize("night", [GAP, REPEAT])
def test_a_rate_fires_each_hour_and_what_is_marked_as_not_fired_does_not(night):
    assert [each.minute for each in firings(EACH_HOUR, night)] == [15] * 6
    for expression, (instant, _) in night.unfired.items():
        assert instant not in firings(expression, night)


def test_each_firing_is_a_dot_with_its_instants():
    text = picture()

    count = sum(len(firings(each, night)) for each in EXPRESSIONS for night in (GAP, REPEAT))
    assert text.count(" UTC</title></circle>") == count == 15
    assert "<title>02:30 CEST = 00:30 UTC</title>" in text
