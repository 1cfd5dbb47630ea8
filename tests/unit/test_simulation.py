"""A virtual clock over many schedules, held against the expressions themselves."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.simulation import DAY_S, offset_s, simulate
from kiqbridge.schedule.state import SchedulePause, ScheduleState

JOBS = ({"class": "Report", "args": []},)
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
ZONES = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",  # turns by half an hour
    "Atlantic/Azores",
    "Europe/Chisinau",  # turned back at midnight UTC, so that the day begins with a repeated hour
    "Pacific/Apia",  # left a day out
    "Africa/Casablanca",  # turns for Ramadan
    "Asia/Kathmandu",
    "America/Havana",  # turns at midnight
]
TEXTS = [
    "cron(30 2 * * ? *)",
    "cron(0/5 * * * ? *)",
    "cron(0 0 * * ? *)",
    "cron(15 1-3 ? * SUN *)",
    "cron(0 12 L * ? *)",
    "cron(59 23 ? * 6#2 2026-2027)",
    "*/20 0-4 * * 0",
    "0 0 13 * 5",
    "*/40 30 2-3 * * *",
    "rate(7 minutes)",
    "rate(5 hours)",
    "at(2026-03-29T12:34:56)",
]


def schedule(expression, timezone="UTC", **more):
    return ScheduleDefinition(
        name=more.pop("name", "s"), expression=expression, jobs=JOBS, timezone=timezone, **more
    )


def flat(definitions, start, end):
    return [firing for day in simulate(definitions, start, end) for firing in day]


def brute(definitions, start, end):
    """The same by the expressions' own walk."""
    instant = timedelta(microseconds=1)
    before, last = (datetime.fromtimestamp(each, UTC) - instant for each in (start, end))
    return sorted(
        (int(due.timestamp()) + each.put_off_s(int(due.timestamp())), index)
        for index, each in enumerate(definitions)
        if each.enabled
        for due in each.when.between(before, last)
    )


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_two_years_are_what_the_expressions_say(zone):
    definitions = [schedule(text, zone) for text in TEXTS]

    assert flat(definitions, START, START + 730 * DAY_S) == brute(
        definitions, START, START + 730 * DAY_S
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(TEXTS), st.sampled_from(ZONES), st.sampled_from([0, 0, 90])),
        max_size=5,
    ),
    st.integers(0, 25 * 365 * DAY_S),
    st.integers(0, 20 * DAY_S),
)
def test_any_window_is_what_the_expressions_say(chosen, since, length):
    start = int(datetime(2005, 1, 1, tzinfo=UTC).timestamp()) + since
    definitions = [
        schedule(text, zone, jitter_s=jitter, name=f"{index}")
        for index, (text, zone, jitter) in enumerate(chosen)
    ]

    assert flat(definitions, start, start + length) == brute(definitions, start, start + length)


def test_a_day_that_begins_with_a_repeated_hour():
    twice = [schedule("cron(30 2 * * ? *)", "Europe/Chisinau")]
    start = int(datetime(2015, 10, 24, tzinfo=UTC).timestamp())

    # 02:30 on the 25th comes at 23:30 UTC, and again at 00:30.
    assert [at - start for at, _ in flat(twice, start, start + 2 * DAY_S)] == [84_600]


def test_a_left_out_day_of_the_pacific():
    # Samoa had no 2011-12-30.
    [samoa] = [schedule("cron(0 12 * * ? *)", "Pacific/Apia")]
    start = int(datetime(2011, 12, 28, tzinfo=UTC).timestamp())

    assert flat([samoa], start, start + 5 * DAY_S) == brute([samoa], start, start + 5 * DAY_S)


def test_the_start_is_in_the_window_and_the_end_is_not():
    hourly = schedule("cron(0 * * * ? *)")

    assert flat([hourly], START, START + 7200) == [(START, 0), (START + 3600, 0)]


def test_firings_of_one_instant_are_in_the_order_of_the_schedules():
    twice = [schedule("cron(0 3 * * ? *)"), schedule("0 3 * * *")]

    assert flat(twice, START, START + DAY_S) == [(START + 10800, 0), (START + 10800, 1)]


def test_a_disabled_schedule_does_not_fire():
    assert flat([schedule("rate(1 minute)", enabled=False)], START, START + DAY_S) == []


def test_what_is_paused_or_skipped_does_not_fire():
    hours = [START + hour * 3600 for hour in range(24)]
    states = [
        ScheduleState(paused=SchedulePause(until=hours[20])),
        ScheduleState(paused=SchedulePause()),
        ScheduleState(skipped=(hours[0], hours[5])),
        ScheduleState(),
    ]
    definitions = [schedule("cron(0 * * * ? *)")] * 4

    [day] = simulate(definitions, START, START + DAY_S, states)

    fired = [[at for at, index in day if index == which] for which in range(4)]
    assert fired == [hours[20:], [], hours[1:5] + hours[6:], hours]


def test_nothing_of_nothing():
    assert flat([], START, START + DAY_S) == []
    assert flat([schedule("rate(1 minute)")], START, START) == []


def test_bounds_are_included():
    start = datetime.fromtimestamp(START + 60, UTC)
    bounded = schedule("cron(* * * * ? *)", start=start, end=start + timedelta(minutes=2))

    assert [at for at, _ in flat([bounded], START, START + DAY_S)] == [
        START + 60,
        START + 120,
        START + 180,
    ]


def test_bounds_with_fractions_of_a_second():
    start = datetime.fromtimestamp(START, UTC) + timedelta(milliseconds=500)
    bounded = [
        schedule(text, start=start, end=start + timedelta(minutes=3))
        for text in ("cron(* * * * ? *)", "rate(1 minute)")
    ]

    assert flat(bounded, START, START + DAY_S) == brute(bounded, START, START + DAY_S)


def test_a_firing_that_jitter_puts_off_beyond_midnight_comes_on_the_next_day():
    both = [
        schedule("cron(59 23 * * ? *)", jitter_s=3600),
        schedule("cron(0 0 * * ? *)"),
        schedule("cron(30 12 * * ? *)"),
    ]
    days = list(simulate(both, START, START + 3 * DAY_S))

    assert [each for day in days for each in day] == brute(both, START, START + 3 * DAY_S)
    assert len(days) == 4  # the last one is put off beyond the end
    for number, day in enumerate(days):
        begin = START + number * DAY_S
        assert all(begin <= at < begin + DAY_S for at, _ in day)


@pytest.mark.parametrize("zone", ZONES)
def test_offsets(zone):
    for hour in range(0, 365 * 24, 5):
        there = datetime.fromtimestamp(START + hour * 3600, ZoneInfo(zone))
        assert timedelta(seconds=offset_s(zone, START + hour * 3600)) == there.utcoffset()


@pytest.mark.slow
def test_two_hundred_schedules_and_a_year(capsys):
    """Prints what it took; how long that may be is the machine's business."""
    texts = [
        *(f"cron({n % 60} {n % 24} * * ? *)" for n in range(120)),
        *(f"cron({n} * * * ? *)" for n in range(50)),
        *("cron(0/15 * * * ? *)" for _ in range(20)),
        *("rate(5 minutes)" for _ in range(10)),
    ]
    definitions = [schedule(text, ZONES[n % 5], name=f"s{n}") for n, text in enumerate(texts)]

    began = time.perf_counter()
    count = sum(len(day) for day in simulate(definitions, START, START + 365 * DAY_S))
    took_s = time.perf_counter() - began

    assert len(definitions) == 200
    assert 2_233_000 < count <= 2_233_800  # some are left out where a clock turns
    with capsys.disabled():
        print(f"\n200 schedules, a year: {count:,} firings in {took_s:.2f} s")
