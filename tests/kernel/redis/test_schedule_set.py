"""Schedules as operators see them, and what operators do to them."""

import json
import time

import pytest

from kiqbridge.api import ScheduleSet
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState
from kiqbridge.wire.tick_mark import JobEnd

NOW = int(time.time())
HOUR = NOW // 3600 * 3600


@pytest.fixture
def schedules(operator, monkeypatch):
    """Which read at one instant, whatever hour it has become since."""
    monkeypatch.setattr("kiqbridge.api.schedules.server_time", lambda _reply: float(NOW))
    return ScheduleSet(operator)


def save(redis, name, expression="0 * * * *", *, state=None, **more):
    jobs = more.pop("jobs", ({"class": "A", "args": []},))
    definition = ScheduleDefinition(name=name, expression=expression, jobs=jobs, **more)
    redis.hset("kb:schedules", name, json.dumps(definition.to_document()))
    if state is not None:
        redis.hset("kb:schedules:state", name, state.to_text())


def fired(redis, name, at, *, late_s=2.5, jids=("a",), ends=(), times=1, **more):
    entry = {"at": at, "jids": jids, "by": "lambda:1", "enqueued_at": at + late_s, **more}
    redis.zadd(f"kb:ticks:{name}", {json.dumps(entry): at})
    if times > 1:
        redis.hset(f"kb:attempts:{name}", at, times)
    for jid, outcome, ended_at in ends:
        end = JobEnd(at=at, jid=jid, outcome=outcome, ended_at=ended_at)
        redis.zadd(f"kb:ends:{name}", {end.to_text(): at})


def missed(redis, name, at):
    redis.zadd("kb:missed", {f"{at} {name}": at})


def test_each_occurrence_says_what_became_of_it(redis, schedules):
    save(redis, "s", timezone="Europe/Paris", description="hourly")
    ago = [HOUR - 3600 * back for back in range(8)]
    fired(redis, "s", HOUR + 3600, late_s=-300)  # placed ahead
    fired(redis, "s", ago[0], ends=[("a", "done", 1.0)])
    fired(redis, "s", ago[1], late_s=600, ends=[("a", "dead", 1.0), ("a", "done", 2.0)])
    fired(
        redis, "s", ago[2], times=3, ends=[("b", "dead", 1.0), ("a", "done", 2.0)], jids=("a", "b")
    )
    missed(redis, "s", ago[3])
    fired(redis, "s", ago[4], late_s=700)
    missed(redis, "s", ago[4])
    fired(redis, "s", ago[5], jids=(), paused=True)
    fired(redis, "s", ago[6], jids=(), skipped=True)
    missed(redis, "another", ago[7])

    [row] = schedules.fetch()

    assert [(each.at, each.kind, each.outcome, each.deliveries) for each in row.occurrences] == [
        (ago[0], "on time", "done", 1),
        (ago[1], "late", "done", 1),
        (ago[2], "duplicate", "dead", 3),
        (ago[3], "missed", "", 0),
        (ago[4], "caught up", "open", 1),
        (ago[5], "paused", "", 1),
        (ago[6], "skipped", "", 1),
    ]
    assert (row.last.late_s, row.last.by, row.last.jids) == (2.5, "lambda:1", ["a"])
    assert (row.name, row.origin, row.state, row.timezone) == (
        "s",
        "dynamic",
        "enabled",
        "Europe/Paris",
    )
    assert (row.classes, row.queues, row.description) == (["A"], ["default"], "hourly")


def test_what_fires_next_is_first_and_what_never_does_is_last(redis, schedules):
    save(redis, "daily", f"{(HOUR // 3600 + 5) % 24 and 0} {(HOUR // 3600 + 5) % 24} * * *")
    save(redis, "hourly")
    save(redis, "once", "2020-01-01T00:00:00Z")
    save(redis, "disabled", enabled=False)
    redis.hset("kb:schedules", "broken", "{}")
    save(redis, "odd", "61 * * * *")

    rows = schedules.fetch(upcoming=3)

    assert [(row.name, row.state, len(row.next)) for row in rows] == [
        ("hourly", "enabled", 3),
        ("daily", "enabled", 3),
        ("broken", "unreadable", 0),
        ("disabled", "disabled", 0),
        ("odd", "unreadable", 0),
        ("once", "enabled", 0),
    ]
    assert rows[0].next_at == HOUR + 3600
    assert rows[-1].note == "never again"
    assert "61" in rows[4].note


def test_a_pause_and_what_is_skipped_move_the_next_instant(redis, schedules):
    pause = SchedulePause(reason="migration", by="bob", at=float(NOW), until=HOUR + 2 * 3600.0)
    save(redis, "until", state=ScheduleState(paused=pause))
    save(redis, "ever", state=ScheduleState(paused=SchedulePause(reason="gone")))
    save(redis, "skips", state=ScheduleState(skipped=(HOUR - 3600, HOUR + 3600)))

    rows = {row.name: row for row in schedules}

    assert (rows["until"].state, rows["until"].next_at) == ("paused", HOUR + 7200)
    assert rows["until"].pause.reason == "migration"
    assert (rows["ever"].state, rows["ever"].next_at) == ("paused", None)
    assert (rows["skips"].next_at, rows["skips"].skipped) == (HOUR + 7200, [HOUR + 3600])


def test_one_schedule_is_found_with_more_of_its_history(redis, schedules):
    save(redis, "s")
    for back in range(50):
        fired(redis, "s", HOUR - 3600 * back)

    assert len(schedules.find("s").occurrences) == 50
    assert len(schedules.find("s", last=5, upcoming=7).occurrences) == 5
    assert len(schedules.find("s").next) == 10
    assert schedules.find("unknown") is None


def test_200_schedules_are_a_few_round_trips(redis, schedules, trips):
    for number in range(200):
        save(redis, f"s{number}", f"{number % 60} * * * *", timezone="Europe/Paris")
        for back in range(1, 6):
            fired(redis, f"s{number}", HOUR - 3600 * back, ends=[("a", "done", 1.0)])

    rows = schedules.fetch()

    assert len(rows) == 200
    assert all(len(row.occurrences) == 5 for row in rows)
    assert len(trips) <= 5
