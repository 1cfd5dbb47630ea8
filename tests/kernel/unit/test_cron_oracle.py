"""The evaluator of schedule expressions against an oracle which walks minute by minute."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from kernel.unit.cron_oracle import MONTHS, WEEKDAYS, due_minutes
from support.proving import sized

from kiqbridge.schedule.cron import parse

TICK = timedelta.resolution
brief = settings(max_examples=sized(full=1500, sample=60), deadline=None, database=None)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


# Where the clocks change, or where days and months end.
TURNING_POINTS = [
    ("Europe/Paris", utc(2026, 3, 29, 1)),
    ("Europe/Paris", utc(2026, 10, 25, 1)),
    ("America/New_York", utc(2026, 3, 8, 7)),
    ("America/New_York", utc(2026, 11, 1, 6)),
    ("Australia/Lord_Howe", utc(2026, 4, 4, 15)),
    ("Australia/Lord_Howe", utc(2026, 10, 3, 15, 30)),
    ("Pacific/Apia", utc(2011, 12, 30, 10)),
    ("Asia/Kathmandu", utc(2027, 12, 31, 18, 15)),
    ("Asia/Tokyo", utc(2028, 2, 28, 15)),
    ("UTC", utc(2028, 2, 29)),
    ("UTC", utc(2026, 4, 30, 23, 59)),
]
ZONES = sorted({zone for zone, _ in TURNING_POINTS})


def numbers(low, high, names=()):
    plain = st.integers(low, high).map(str)
    if not names:
        return plain
    return plain | st.sampled_from(names) | st.sampled_from(names).map(str.lower)


def spans(low, high, names=(), *, wraps=True):
    """`a-b`; backwards only where the field wraps around."""
    number = numbers(low, high, names)
    if wraps:
        return st.builds("{}-{}".format, number, number)
    pairs = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    return pairs.map(lambda pair: f"{pair[0]}-{pair[1]}")


def fields(low, high, names=(), *, wraps=True, extra=()):
    number, span = numbers(low, high, names), spans(low, high, names, wraps=wraps)
    step = st.integers(1, high - low).map(str)
    stepped = st.builds("{}/{}".format, st.just("*") | number | span, step)
    items = st.one_of(st.just("*"), number, span, stepped, *extra)
    return st.lists(items, min_size=1, max_size=3).map(",".join)


any_day = st.integers(1, 31)
special_days_of_month = st.sampled_from(["L", "LW", "1W", "15W", "30W", "31W", "l", "lw"]) | (
    any_day.map("{}W".format)
)
special_days_of_week = st.one_of(
    st.just("L"),
    numbers(1, 7, WEEKDAYS).map("{}L".format),
    st.builds("{}#{}".format, numbers(1, 7, WEEKDAYS), st.integers(1, 5)),
)
special_days = st.tuples(special_days_of_month, st.just("?")) | (
    st.tuples(st.just("?"), special_days_of_week)
)
any_days = st.one_of(
    st.sampled_from([("*", "?"), ("?", "*"), ("?", "MON-SAT"), ("2-31", "?")]),
    st.tuples(fields(1, 31, extra=[special_days_of_month]), st.just("?")),
    st.tuples(st.just("?"), fields(1, 7, WEEKDAYS)),
    special_days,
)
all_months, all_years = st.sampled_from(["*", "*/1", "1-12"]), st.sampled_from(["*", "1971-2199"])
any_months = all_months | fields(1, 12, MONTHS)
any_years = all_years | fields(2010, 2030, wraps=False)
night_hours = st.sampled_from(["0", "1", "2", "3", "1-3", "23-2", "*"])


def crons(minutes, hours, days, months, years):
    """Each argument is a strategy for its field; `days` draws both day fields."""
    return st.builds(
        lambda minute, hour, day, month, year: (
            f"cron({minute} {hour} {day[0]} {month} {day[1]} {year})"
        ),
        minutes,
        hours,
        days,
        months,
        years,
    )


@st.composite
def windows(draw, longest):
    """(zone, start, end) around a turning point."""
    zone, point = draw(st.sampled_from(TURNING_POINTS))
    start = point - draw(st.timedeltas(timedelta(0), longest / 2))
    return zone, start, start + draw(st.timedeltas(timedelta(0), longest))


any_hours = night_hours | fields(0, 23)
any_cron = crons(fields(0, 59), any_hours, any_days, any_months, any_years)
# Every day counts here, so that a window of a few days holds some occurrences.
daily_cron = crons(fields(0, 59), any_hours, st.just(("*", "?")), all_months, all_years)
# Few minutes, on the days that take months to come round.
monthly_cron = crons(numbers(0, 59), numbers(0, 23), special_days, all_months, all_years)
instants = st.datetimes(datetime(2010, 1, 1), datetime(2031, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds and adds the zone


@st.composite
def single_times(draw):
    """A time on the wall of a turning point's zone, and its window."""
    zone, start, end = draw(windows(timedelta(days=2)))
    wall = start.replace(tzinfo=None) + draw(st.timedeltas(timedelta(0), timedelta(days=2)))
    return f"at({wall.replace(second=0, microsecond=0).isoformat()})", (zone, start, end)


@brief
@given(
    st.tuples(any_cron | daily_cron, windows(timedelta(days=4)))
    | st.tuples(monthly_cron, windows(timedelta(days=150)))
    | single_times()
)
@example(("cron(30 2 * * ? *)", ("Europe/Paris", utc(2026, 3, 28), utc(2026, 3, 31))))
@example(("cron(*/20 * * * ? *)", ("Australia/Lord_Howe", utc(2026, 4, 4), utc(2026, 4, 6))))
@example(("cron(*/15 * * * ? *)", ("Australia/Lord_Howe", utc(2026, 10, 3), utc(2026, 10, 4))))
@example(("cron(*/20 * * * ? *)", ("America/New_York", utc(2026, 10, 31), utc(2026, 11, 1, 6, 15))))
@example(("cron(0 9 30 * ? *)", ("Pacific/Apia", utc(2011, 12, 28), utc(2012, 1, 2))))
def test_the_evaluator_and_the_oracle_agree_on_every_minute_and_on_the_latest(case):
    text, (zone, start, end) = case
    seen = due_minutes(text, zone, start, end)
    schedule = parse(text, zone)
    assert list(schedule.between(start, end)) == seen
    latest = schedule.latest_at_or_before(end)
    assert latest == seen[-1] if seen else latest is None or latest <= start


@brief
@given(any_cron, st.sampled_from(ZONES), instants)
def test_occurrences_strictly_increase_and_each_is_the_latest_at_its_own_time(text, zone, instant):
    schedule = parse(text, zone)
    ticks = [instant]
    while len(ticks) < 6 and (tick := schedule.next_after(ticks[-1])):
        ticks.append(tick)

    for before, tick in pairwise(ticks):
        assert tick > before
        assert schedule.latest_at_or_before(tick) == tick
        assert schedule.next_after(tick - TICK) == tick
    for before, tick in pairwise(ticks[1:]):
        assert schedule.latest_at_or_before(tick - TICK) == before


@brief
@given(
    any_cron | daily_cron, windows(timedelta(days=3)), st.integers(0, 4000), st.integers(0, 4000)
)
def test_bounds_take_away_what_lies_outside_and_nothing_else(text, window, skipped, kept):
    zone, begin, finish = window
    first = (begin + skipped * timedelta(minutes=1)).replace(second=0, microsecond=0)
    last = first + kept * timedelta(minutes=1)
    bounded, free = parse(text, zone, start=first, end=last), parse(text, zone)

    inside = [tick for tick in free.between(begin, finish) if first <= tick <= last]

    assert list(bounded.between(begin, finish)) == inside
    latest = free.latest_at_or_before(min(finish, last))
    assume(latest is not None)
    assert bounded.latest_at_or_before(finish) == (latest if latest >= first else None)


@brief
@given(st.integers(1, 5000), st.timedeltas(timedelta(days=-9), timedelta(days=9)))
@example(1440, timedelta(0))  # a day is 24 hours also when the clocks change
def test_a_rate_is_due_every_so_many_minutes_counted_one_by_one(count, offset):
    phase = utc(2026, 3, 28, 12, 0, 7)
    begin = phase + offset
    text = f"rate({count} minute{'s' if count > 1 else ''})"
    counted = [phase + n * timedelta(minutes=1) for n in range(20000) if n % count == 0]

    schedule = parse(text, "Europe/Paris", start=phase)

    end = begin + timedelta(days=4)
    assert list(schedule.between(begin, end)) == [t for t in counted if begin < t <= end]
    past = [t for t in counted if t <= begin]
    assert schedule.latest_at_or_before(begin) == (past[-1] if past else None)
