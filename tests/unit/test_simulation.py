"""A virtual clock over many schedules; what each expression names: test_cron.py."""

from datetime import UTC, datetime, timedelta

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.simulation import DAY_S, simulate
from kiqbridge.schedule.state import SchedulePause, ScheduleState

JOBS = ({"class": "Report", "args": []},)
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


def schedule(expression, timezone="UTC", **more):
    return ScheduleDefinition(
        name=more.pop("name", "s"), expression=expression, jobs=JOBS, timezone=timezone, **more
    )


def flat(definitions, start, end):
    return [firing for day in simulate(definitions, start, end) for firing in day]


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


def test_a_firing_that_jitter_puts_off_beyond_midnight_comes_on_the_next_day():
    both = [
        schedule("cron(59 23 * * ? *)", jitter_s=3600),
        schedule("cron(0 0 * * ? *)"),
        schedule("cron(30 12 * * ? *)"),
    ]
    days = list(simulate(both, START, START + 3 * DAY_S))

    late = [START + day * DAY_S - 60 for day in (1, 2, 3)]
    assert [at for day in days for at, index in day if index == 0] == [
        at + both[0].put_off_s(at) for at in late
    ]
    assert len(days) == 4  # the last one is put off beyond the end
    for number, day in enumerate(days):
        begin = START + number * DAY_S
        assert all(begin <= at < begin + DAY_S for at, _ in day)
