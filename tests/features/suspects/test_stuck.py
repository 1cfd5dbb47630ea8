"""Real workers that stop while jobs run: one that hangs counts each time, long work never does."""

import pytest
from support.notes import Notes

from kiqbridge.engine.settle.metrics import Measured
from kiqbridge.features.suspects.roles import stuck_after_s

JOBS = """
from kiqbridge import job
from kiqbridge.features.suspects import roles
from support.noting import hold, note

roles.LEAST_S = 0.3  # not five minutes

@job(retry=False)
def mostly_short(hangs):
    note("hangs" if hangs else "short")
    if hangs:
        hold()

@job(retry=False, pool="process")
def long_work():
    note("long")
    hold()
"""
ENV = {"KIQBRIDGE_ORPHAN_LIMIT": "2"}
FLAGS = ("-c", "3", "-t", "0.5")


@pytest.fixture
def seen(tmp_path):
    return Notes(tmp_path)


@pytest.mark.slow
def test_a_job_that_hangs_at_each_stop_becomes_a_suspect_and_long_work_goes_back_uncounted(
    redis, start, client, seen
):
    stuck = client.push({"class": "mostly_short", "args": [True]})
    long = client.push({"class": "long_work", "args": []})
    for times in (1, 2):
        client.push({"class": "mostly_short", "args": [False]})
        worker = start()
        seen.wait("short", times)  # so that this process knows how long its class takes
        seen.wait("hangs", times)
        seen.wait("long", times)
        assert worker.stop() == 0
        assert f"job {stuck} of queue default is stuck" in worker.output
        assert f"{times} of 2 times" in worker.output
        assert redis.get(f"kb:recovered:{stuck}") == str(times).encode()
        assert not redis.exists(f"kb:recovered:{long}")
        assert redis.llen("queue:default") + redis.llen("kb:suspects:default") == 2
    assert stuck in redis.lindex("kb:suspects:default", 0).decode()
    assert long in redis.lindex("queue:default", 0).decode()
    assert not redis.exists("retry", "dead")


def test_how_long_a_job_may_run_depends_on_its_class_and_never_on_a_long_class_alone():
    assert stuck_after_s(None) == stuck_after_s(Measured(histogram={}, failed=9, ms=0)) == 3600
    assert stuck_after_s(Measured(histogram={0: 10}, failed=0, ms=100)) == 300
    assert stuck_after_s(Measured(histogram={25: 2}, failed=1, ms=7_200_000)) == 36_000
