"""Which form an expression has; what is due every so often, and once."""

from datetime import UTC, datetime, timedelta

import pytest

from kiqbridge.schedule.cron import At, Cron, Rate
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_duration, parse_expression

BEGIN = datetime(2026, 3, 28, 23, 59, 30, tzinfo=UTC)
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("cron(0 3 * * ? *)", Cron),
        (" cron(0 3 * * ? *)", Cron),
        ("rate(5 minutes)", Rate),
        ("at(2026-05-01T00:00:00)", At),
        ("0 3 * * *", Cron),
        ("*/10 * * * * *", Cron),
        ("@daily", Cron),
        ("CRON_TZ=UTC 0 3 * * *", Cron),
        ("every 5m", Rate),
        ("every 30 seconds", Rate),
        ("every PT1H30M", Rate),
        ("every 15th of the month", Cron),
        ("every day at 3am", Cron),
        ("every second", Cron),
        ("from monday to friday at 9", Cron),
        ("at 3am every day", Cron),
        ("2026-05-01 09:00 Europe/Paris", At),
        ("at 2026-05-01", At),
    ],
)
def test_each_form_is_read_with_its_bounds(text, form):
    parsed = parse_expression(text, "UTC", start=START, end=END)

    assert isinstance(parsed, form)
    assert (parsed.text, parsed.bounds.start, parsed.bounds.end) == (text, START, END)
    first = parsed.next_after(datetime(2025, 1, 1, tzinfo=UTC))
    assert START <= first == next(parsed.between(START - (END - START), END))
    assert parsed.latest_at_or_before(first) == first
    assert parsed.latest_at_or_before(datetime(2028, 1, 1, tzinfo=UTC)) <= END


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cron (0 3 * * ? *)", "is none of cron"),
        ("Cron(0 3 * * ? *)", r"is none of cron\(…\), rate"),
        ("tomorrow", "is none of cron.*or words: every 5 minutes"),
        ("", "is none of cron"),
        ("1h30m", "is a duration alone; write every 1h30m"),
        ("in 5m", "counts from the moment in which it is read"),
        ("every other day", "is none of the forms that are understood"),
        ("0 3 * *", "has 4 fields"),
        ("every 5x", "schedule expression 'every 5x': duration '5x' cannot be read"),
        ("2027-02-30", "is no time from 1970 to 2199"),
        ("2027-01-31 24:00", "is no time"),
        ("2027-01-31 9:00", "is no time"),
        ("2200-01-01", "is no time from 1970 to 2199"),
        ("2027-01-31 09:00:00.5", "is no time"),
        ("2027-01-31 09:00 Europe/Pariss", "time zone 'Europe/Pariss' is unknown"),
        ("2027-01-31T09:00:00+99:00", "is no time"),
    ],
)
def test_what_has_no_form_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_expression(text)


def test_a_zone_that_is_none_is_refused_and_dates_are_read_in_theirs():
    with pytest.raises(ExpressionError, match="time zone 'Paris' is unknown"):
        parse_expression("every 5m", "Paris")
    assert parse_expression("2027-01-31").moment == datetime(2027, 1, 31, tzinfo=UTC)
    assert parse_expression("2026-03-29 02:30", "Europe/Paris").moment is None  # clocks skip it


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
    ("reason", "texts"),
    [
        ("cannot be read", ["", "5", "m", "30m1h", "5m5m", "1.5h", "-5m", "PT", "P1H", "٣m"]),
        ("is 0; write one from 1 second", ["0s"]),
        ("longer than the calendar", ["999999999w"]),
        ("months and years have no fixed length", ["1M", "1y2M", "2 months", "P1Y", "P1M"]),
    ],
)
def test_what_is_no_duration_is_refused(reason, texts):
    for text in texts:
        with pytest.raises(ExpressionError, match=reason):
            parse_duration(text)


def test_every_so_often_counts_elapsed_time_whatever_the_clocks_do():
    schedule = parse_expression("every 30s", "Europe/Paris", start=BEGIN)
    found = list(schedule.between(BEGIN, BEGIN + timedelta(hours=6)))
    assert found == [BEGIN + n * timedelta(seconds=30) for n in range(1, 721)]
    assert schedule.latest_at_or_before(BEGIN + timedelta(seconds=89)) == found[1]
    assert (schedule.text, schedule.period_s) == ("every 30s", 30)
    assert schedule.timezone == "Europe/Paris"


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
