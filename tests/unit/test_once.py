"""A time as an expression: due once."""

from datetime import UTC, datetime

import pytest

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression


@pytest.mark.parametrize(
    ("text", "hour", "zone"),
    [
        ("2027-01-31 09:00:00", 8, "Europe/Paris"),
        ("2027-01-31T09:00", 8, "Europe/Paris"),
        ("at 2027-01-31 09:00", 8, "Europe/Paris"),
        ("2027-01-31 09:00:00 Asia/Tokyo", 0, "Asia/Tokyo"),
        ("2027-01-31T09:00:00Z", 9, "Europe/Paris"),
        ("2027-01-31T09:00:00+01:00", 8, "Europe/Paris"),
        ("2027-01-31 09:00 UTC", 9, "UTC"),
    ],
)
def test_a_time_is_due_once(text, hour, zone):
    schedule = parse_expression(text, "Europe/Paris")

    due = datetime(2027, 1, 31, hour, tzinfo=UTC)
    window = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
    assert list(schedule.between(*window)) == [due]
    assert (schedule.text, schedule.timezone) == (text, zone)


def test_a_date_alone_is_its_midnight():
    assert parse_expression("2027-01-31").moment == datetime(2027, 1, 31, tzinfo=UTC)


def test_a_time_that_the_clocks_skip_is_never_due():
    assert parse_expression("2026-03-29 02:30", "Europe/Paris").moment is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2027-02-30", "is no time from 1970 to 2199"),
        ("2027-01-31 24:00", "is no time"),
        ("2027-01-31 9:00", "is no time"),
        ("2200-01-01", "is no time from 1970 to 2199"),
        ("2027-01-31 09:00:00.5", "is no time"),
        ("2027-01-31 09:00 Europe/Pariss", "time zone 'Europe/Pariss' is unknown"),
        ("2027-01-31T09:00:00+99:00", "is no time"),
    ],
)
def test_what_is_no_time_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_expression(text)
