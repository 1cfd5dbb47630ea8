"""Which form an expression has: durations, times, words, seconds, and several of one schedule."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kiqbridge.schedule.cron import At, Bounds, Cron, Rate, Union, parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.expression import parse_duration, parse_expression
from kiqbridge.schedule.natural import UNDERSTOOD, cron_line_of

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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("every minute", "* * * * *"),
        ("every hour", "0 * * * *"),
        ("every day", "0 0 * * *"),
        ("every week", "0 0 * * 0"),
        ("every month", "0 0 1 * *"),
        ("every year", "0 0 1 1 *"),
        ("every second", "* * * * * *"),
        ("every day at 3am", "0 3 * * *"),
        ("Every  Day At 3AM ", "0 3 * * *"),
        ("every day at 3 pm", "0 15 * * *"),
        ("every day at 16:30", "30 16 * * *"),
        ("every day at 4:30pm", "30 16 * * *"),
        ("every day at five", "0 5 * * *"),
        ("every day at 0:15", "15 0 * * *"),
        ("every day at noon", "0 12 * * *"),
        ("every day at 12pm", "0 12 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("every day at noon and midnight", "0 0,12 * * *"),
        ("every day at 16:00 and 18:00", "0 16,18 * * *"),
        ("every monday at noon", "0 12 * * MON"),
        ("every weekday at 9:30", "30 9 * * MON-FRI"),
        ("every wed or Monday at 5pm and 11", "0 11,17 * * WED,MON"),
        ("every mon, wed and fri at 10:00", "0 10 * * MON,WED,FRI"),
        ("from monday to friday at 17:00", "0 17 * * MON-FRI"),
        ("every friday-monday at 1am", "0 1 * * FRI-MON"),
        ("every 1st of the month at 4pm", "0 16 1 * *"),
        ("every 1st and 15th of the month at 4pm", "0 16 1,15 * *"),
        ("every first of the month at noon", "0 12 1 * *"),
        ("every month on the 1st at 5pm", "0 17 1 * *"),
        ("every hour at minute 30", "30 * * * *"),
        ("every 12 hours at minute 50", "50 */12 * * *"),
        ("at 3am every day", "0 3 * * *"),
        ("every day at 03:00 Europe/Paris", "0 3 * * * Europe/Paris"),
        ("every day at 6 pm in Asia/Tokyo", "0 18 * * * Asia/Tokyo"),
        ("every weekday at 5 pm on America/Los_Angeles", "0 17 * * MON-FRI America/Los_Angeles"),
        ("every day UTC", "0 0 * * * UTC"),
    ],
)
def test_words_are_a_cron_line(text, line):
    assert cron_line_of(text) == line


def test_what_is_parsed_keeps_its_words():
    parsed = parse_expression("every day at 3am Europe/Paris", "Asia/Tokyo")

    assert (parsed.text, parsed.timezone) == ("every day at 3am Europe/Paris", "Europe/Paris")
    assert parse_expression("every second").text == "every second"


@pytest.mark.parametrize("example", UNDERSTOOD.split("; each")[0].split("; ")[2:])
def test_the_examples_of_the_message_are_read(example):
    parse_expression(example)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every day at 16:15 and 18:30", "these times have different minutes"),
        ("every day at 12am", "noon in fugit before 1.7.2, midnight since"),
        ("every day at 12:30 am", "noon in fugit before 1.7.2, midnight since"),
        ("every day at 25:00", "is no time of day"),
        ("every day at 13pm", "is no time of day"),
        ("every day at 10:75", "is no time of day"),
        ("every 5 hours at minute 10", "does not divide the day"),
        ("every hour at minute 75", "minute: '75' is out of range"),
        ("every 32nd of the month at noon", "day of month: '32' is out of range"),
        (
            "every other day",
            "is none of the forms that are understood: every 5 minutes, for elapsed time; ",
        ),
        ("every quarter", "is none of the forms"),
        ("every last day of the month", "is none of the forms"),
        ("every day from 9am to 5pm", "is none of the forms"),
        ("every 3 days at 5pm", "is none of the forms"),
        ("every", "is none of the forms"),
        ("every day at 3am Europe/Pariss", "time zone 'Europe/Pariss' is unknown"),
    ],
)
def test_what_has_no_single_meaning_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason) as raised:
        parse_expression(text)

    assert repr(text) in str(raised.value)


SECOND = timedelta(seconds=1)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def walked(seconds, minutes, zone, start, end):
    """Each second after `start` up to `end` whose wall clock matches, at its first coming."""
    found, instant = [], start.replace(microsecond=0)
    while (instant := instant + SECOND) <= end:
        wall = instant.astimezone(zone)
        if wall.second in seconds and wall.minute in minutes and not wall.fold:
            found.append(instant)
    return found


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("UTC", utc(2026, 5, 4)),
        ("Europe/Paris", utc(2026, 3, 29, 1)),
        ("Europe/Paris", utc(2026, 10, 25, 1)),
        ("Australia/Lord_Howe", utc(2026, 4, 4, 15)),
    ],
)
def test_it_is_due_at_the_seconds_of_a_walk(zone, around, tell):
    rng, compared = random.Random(5), 0
    for _ in range(6):
        seconds = sorted(rng.sample(range(60), rng.randint(1, 4)))
        minutes = sorted(rng.sample(range(60), rng.randint(1, 9)))
        start = around - timedelta(seconds=rng.randrange(4000))
        end = around + timedelta(seconds=rng.randrange(4000))
        line = f"{','.join(map(str, seconds))} {','.join(map(str, minutes))} * * * *"
        schedule = parse_expression(line, zone)

        expected = walked(set(seconds), set(minutes), ZoneInfo(zone), start, end)

        assert list(schedule.between(start, end)) == expected
        for before, tick in zip([start, *expected], expected, strict=False):
            assert schedule.next_after(before) == tick
            assert schedule.latest_at_or_before(tick) == tick
            latest = schedule.latest_at_or_before(tick - timedelta.resolution)
            assert before in {latest, start}
        compared += len(expected)
    assert compared > 0
    tell(f"seconds in {zone}: {compared} times compared with a walk, second by second")


def test_bounds_are_included_and_seconds_of_zero_are_minutes():
    assert parse_expression("0 */5 * * * *").seconds == (0,)
    start, end = utc(2026, 1, 1, 0, 0, 20), utc(2026, 1, 1, 0, 0, 40)
    schedule = parse_expression("*/10 * * * * *", start=start, end=end)
    assert schedule.next_after(utc(2025, 1, 1)) == start
    assert [at.second for at in schedule.between(utc(2025, 1, 1), utc(2027, 1, 1))] == [20, 30, 40]
    assert schedule.latest_at_or_before(utc(2027, 1, 1)) == end
    assert schedule.latest_at_or_before(start - SECOND) is None
    assert schedule.next_after(end) is None
    never = parse_expression("*/10 0 0 30 2 *")
    assert never.next_after(utc(2026, 1, 1)) is None
    assert never.latest_at_or_before(utc(2026, 1, 1)) is None


PARTS = tuple(parse(text, "Europe/Paris") for text in ("cron(0 0 13 * ? *)", "cron(0 0 ? * FRI *)"))
EITHER = Union(text="13th or Friday", timezone="Europe/Paris", bounds=Bounds(), parts=PARTS)
LINE = parse_crontab("0 0 13 * 5", "Europe/Paris")
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)


def test_it_is_due_once_where_two_parts_are():
    due = list(EITHER.between(FIRST, LAST))
    assert due == list(LINE.between(FIRST, LAST))
    assert len(due) == len(set(due))
    for instant in due[:30]:
        assert EITHER.next_after(instant) == LINE.next_after(instant)
        assert EITHER.latest_at_or_before(instant) == instant


def test_parts_that_are_over_give_nothing():
    parts = (parse("at(2026-01-01T00:00:00)"), parse("at(2026-02-01T00:00:00)"))
    over = Union(text="twice", timezone="UTC", bounds=Bounds(), parts=parts)

    assert over.next_after(LAST) is None
    assert over.latest_at_or_before(datetime(2025, 1, 1, tzinfo=UTC)) is None
