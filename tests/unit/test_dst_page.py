"""docs/schedules.md, "When the clocks change": each command prints what stands below it."""

import contextlib
import io
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kiqbridge.commands.cli import main
from kiqbridge.schedule.cron import parse

TEXT = (Path(__file__).parents[2] / "docs/schedules.md").read_text(encoding="utf-8")
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
    assert len(EXAMPLES) == PAGE.count("kiqbridge schedule next") == 3


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
