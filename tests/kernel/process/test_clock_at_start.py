"""A worker starts on a machine whose clock is wrong: what is due goes by the clock of Redis, and the log names the wrong one."""

import time

import pytest
from support.faketime import WallClock
from support.waiting import wait_until

from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.faketime]

JOBS = """
from kiqbridge import job

@job
def quick(): ...
"""
KEYS = Keys()
AHEAD_S = 3 * 3600


@pytest.mark.parametrize("led_before", [False, True])
def test_a_leader_that_starts_with_its_clock_ahead_begins_nothing_early(
    start, client, redis, tmp_path, led_before
):
    if led_before:  # by a process whose clock is right, and which has ended since
        leader = start()
        wait_until(lambda: redis.exists(KEYS.poller_clock), what="its look")
        assert leader.stop() == 0
        assert not redis.exists(KEYS.poller)
    client.push_bulk({"class": "quick", "args": [[]] * 5, "at": time.time() + 3600})
    soon = time.time() + 3
    client.push({"class": "quick", "args": [], "at": soon})
    clock = WallClock(tmp_path / "clock")
    clock.jump(AHEAD_S)

    worker = start(is_forked=False, **clock.env)

    wait_until(lambda: int(redis.get("stat:processed") or 0) > 0, what="the job that is due")
    assert time.time() > soon - 0.1
    assert redis.zcard("schedule") == 5
    assert redis.get("stat:processed") == b"1"
    assert "the clock of this machine is 3 h ahead (" in worker.output
    assert ("which led last" in worker.output) is led_before
