"""`kiqbridge schedule lint` and `simulate` of what lies in Redis."""

import json

import pytest

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState

AT = 1_795_359_600
"""2026-11-22T15:00:00Z."""


@pytest.fixture
def run(run):
    def of_redis(verb, *words):
        return run("schedule", verb, "--from", "2026-11-22T15:00Z", "--redis", *words)

    return of_redis


def save(redis, name, expression="0 3 * * *", *, state=None):
    definition = ScheduleDefinition(name=name, expression=expression, jobs=({"class": "A"},))
    redis.hset("kb:schedules", name, json.dumps(definition.to_document()))
    if state is not None:
        redis.hset("kb:schedules:state", name, state.to_text())


def test_a_simulation_heeds_pauses_and_skips_and_leaves_out_what_cannot_be_read(run, redis):
    save(redis, "bad", "every now and then")
    save(redis, "paused", state=ScheduleState(paused=SchedulePause()))
    save(redis, "fires", state=ScheduleState(skipped=(AT + 12 * 3600,)))

    status, out, err = run("simulate", "--to", "2026-11-25T15:00Z", "--format", "json")

    assert status == 0
    assert "bad is left out, since it never fires: " in err
    assert json.loads(out)["firings"] == [
        {"at": "2026-11-24T03:00:00Z", "schedule": "fires"},
        {"at": "2026-11-25T03:00:00Z", "schedule": "fires"},
    ]


@pytest.mark.parametrize(
    "words", ["lint", "simulate --to 2026-11-25", "simulate --to 2026-11-25 --format csv"]
)
def test_a_name_of_any_bytes(run, words, redis):
    definition = {"expression": "30 2 * * *", "timezone": "Europe/Paris", "jobs": [{"class": "A"}]}
    redis.hset("kb:schedules", b"\xff", json.dumps(definition))

    status, out, _ = run(*words.split())

    assert status == 0
    assert r"\xff" in out
