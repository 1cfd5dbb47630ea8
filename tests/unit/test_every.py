"""Durations, and what is due every so often."""

from datetime import UTC, datetime, timedelta

import pytest

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.every import parse_duration
from kiqbridge.schedule.expression import parse_expression

START = datetime(2026, 3, 28, 23, 59, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1d12h", 129_600),
        ("2w", 1_209_600),
        ("1w1d1h1m1s", 694_861),
        (" 5m ", 300),
        ("5 minutes", 300),
        ("1 minute", 60),
        ("10 min", 600),
        ("2 Hours", 7200),
        ("3 days", 259_200),
        ("1 week", 604_800),
        ("90 sec", 90),
        ("PT1H30M", 5400),
        ("PT45S", 45),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
    ],
)
def test_a_duration_is_its_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("5", "cannot be read"),
        ("m", "cannot be read"),
        ("30m1h", "cannot be read"),
        ("5m5m", "cannot be read"),
        ("1.5h", "cannot be read"),
        ("-5m", "cannot be read"),
        ("PT", "cannot be read"),
        ("P1H", "cannot be read"),
        ("٣m", "cannot be read"),
        ("0s", "is 0; write one from 1 second"),
        ("999999999w", "longer than the calendar"),
        ("1M", "months and years have no fixed length"),
        ("1y2M", "months and years have no fixed length"),
        ("2 months", "months and years have no fixed length"),
        ("P1Y", "months and years have no fixed length"),
        ("P1M", "months and years have no fixed length"),
    ],
)
def test_what_is_no_duration_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_duration(text)


def test_every_so_often_counts_elapsed_time_whatever_the_clocks_do():
    schedule = parse_expression("every 30s", "Europe/Paris", start=START)

    found = list(schedule.between(START, START + timedelta(hours=6)))

    assert found == [START + n * timedelta(seconds=30) for n in range(1, 721)]
    assert schedule.latest_at_or_before(START + timedelta(seconds=89)) == found[1]
    assert (schedule.text, schedule.timezone, schedule.period_s) == (
        "every 30s",
        "Europe/Paris",
        30,
    )


@pytest.mark.parametrize(
    ("text", "timezone", "reason"),
    [
        ("every 5x", "UTC", "schedule expression 'every 5x': duration '5x' cannot be read"),
        ("every 5m", "Paris", "time zone 'Paris' is unknown"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_text(text, timezone, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_expression(text, timezone)
