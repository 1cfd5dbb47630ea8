"""`kiqbridge schedule skip` and `run`: what they write, say and answer."""

import json
import time
from functools import partial

import pytest

from kiqbridge import Schedule, Schedules


@pytest.fixture
def run(run):
    """Runs `kiqbridge schedule`."""
    return partial(run, "schedule")


@pytest.fixture
def schedules(client) -> Schedules:
    schedules = Schedules(client)
    schedules.save(Schedule("nightly", "A", every=3600))
    return schedules


def test_skipping(run, schedules):
    next_hour = (int(time.time()) // 3600 + 1) * 3600
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(next_hour))

    code, out, _ = run("skip", "nightly", "--dry-run", "--json")
    assert json.loads(out)["skipped"] in ([text], [_later(next_hour)])
    code, out, _ = run("skip", "nightly", "--count", "2")

    assert code == 0
    assert len(out.splitlines()) == 2
    assert out.startswith("nightly skips ")
    assert len(schedules.get("nightly").state.skipped) == 2
    code, _, err = run("skip", "nihgtly")
    assert code == 2
    assert "did you mean nightly" in err
    assert run("skip", "nightly", "--count", "0")[0] == 2


def test_running(run, redis, schedules):
    code, out, _ = run("run", "nightly", "--counted", "--dry-run")
    assert code == 0
    assert out.startswith("would run nightly as its occurrence of ")
    assert redis.zcard("schedule") == 0

    code, out, _ = run("run", "nightly", "--json")
    answer = json.loads(out)
    [text] = redis.zrange("schedule", 0, -1)
    assert (code, answer["jids"]) == (0, [json.loads(text)["jid"]])
    assert answer["counted"] is False
    [entry] = redis.zrange("kb:ticks:nightly", 0, -1)
    assert json.loads(entry)["by"].startswith("cli:")

    code, out, _ = run("run", "nightly", "--counted")
    assert out.startswith("enqueued nightly as its occurrence of ")
    assert run("run", "nightly", "--counted")[0] == 2
    assert run("run", "nihgtly")[0] == 2


def _later(hour: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hour + 3600))
