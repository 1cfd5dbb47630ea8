"""When the programs fire that are imported from: held against cron(8) and fugit at clock changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.imports.verification import source_instants

PARIS = "Europe/Paris"
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)


def fires(text, day, dialect="cron", zone=PARIS):
    window = day - timedelta(minutes=1), day + timedelta(hours=5)
    found = source_instants(text, zone, dialect, *window)
    return [f"{each:%H:%M}" for each in found]


@pytest.mark.parametrize(
    ("text", "dialect", "spring", "autumn"),
    [
        ("30 2 * * *", "cron", ["01:00"], ["00:30"]),
        ("0,30 2 * * *", "cron", ["01:00", "01:00"], ["00:00", "00:30"]),
        ("0 3 * * *", "cron", ["01:00"], ["02:00"]),
        ("30 * * * *", "cron", ["00:30", "01:30", "02:30", "03:30", "04:30"], 6 * ["x"]),
        ("*/30 2 * * *", "cron", [], ["00:00", "00:30", "01:00", "01:30"]),
        ("30 2 * * *", "fugit", [], ["00:30", "01:30"]),
    ],
)
def test_clock_changes_go_by_the_rule_of_the_program(text, dialect, spring, autumn):
    assert fires(text, SPRING, dialect) == spring
    found = fires(text, AUTUMN, dialect)
    if autumn == 6 * ["x"]:
        assert found == ["00:30", "01:30", "02:30", "03:30", "04:30"]
    else:
        assert found == autumn


def test_half_an_hour_skipped_is_made_up_for():
    # Lord Howe: at 02:00 the clocks skip to 02:30, on 4 October 2026.
    day = datetime(2026, 10, 3, 13, tzinfo=UTC)

    assert fires("15 2 * * *", day, zone="Australia/Lord_Howe") == ["15:30"]


@pytest.mark.parametrize(
    ("text", "cron", "fugit"),
    [("0 0 1 * 1", 6, 6), ("0 0 */2 * 1", 2, 18), ("0 0 1-31/2 * 1", 18, 18)],
)
def test_both_day_fields_go_by_the_rule_of_the_program(text, cron, fugit):
    start = datetime(2026, 10, 31, 12, tzinfo=UTC)  # 1 November, and 30 days
    end = start + timedelta(days=30)

    def count(dialect):
        return len(source_instants(text, "UTC", dialect, start, end))

    assert (count("cron"), count("fugit")) == (cron, fugit)


def test_local_time_is_that_of_the_zone():
    end = SPRING + timedelta(days=3)
    found = source_instants("0 3 * * *", "Asia/Kolkata", "cron", SPRING, end)

    assert {each.astimezone(ZoneInfo("Asia/Kolkata")).hour for each in found} == {3}
    assert len(found) == 3


@pytest.mark.parametrize("text", ["0 0 L * *", "0 0 * * 1#2", "61 * * * *", "5-1 * * * *", "* * *"])
def test_other_fields_are_not_guessed(text):
    with pytest.raises(ExpressionError):
        source_instants(text, "UTC", "cron", SPRING, AUTUMN)
