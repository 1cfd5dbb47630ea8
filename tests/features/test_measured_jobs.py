"""Which executions a worker measures, and when it says so (protocol §12.1, §12.2)."""

import asyncio
import json
import threading
import time

import pytest
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.client.require import load_all
from kiqbridge.errors import JobInterrupted

JOB_OF_A_PROCESS = """
from kiqbridge import job

@job(name="InAProcess", pool="process", retry=False)
def in_a_process(fails):
    if fails:
        raise ValueError("no luck")
"""

WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
BUCKETS = {"7": "j|????????|*:*", "8": "j|??????|*:??"}
"""Patterns of the minutes' hashes."""


@pytest.fixture
def started():
    """Set when a job that tells so has begun."""
    return threading.Event()


@pytest.fixture(autouse=True)
def _declared(started):
    with own_declarations():

        @job(name="Quick")
        def quick():
            pass

        @job(name="OnLoop")
        async def on_loop():
            await asyncio.sleep(0.021)

        @job(name="Failing", retry=False)
        def failing():
            raise ValueError("no luck")

        @job(name="MakesRoom")
        def makes_room():
            if not started.is_set():
                started.set()
                saved = JobInterrupted()
                saved.is_saved = True  # as an iterable job
                raise saved

        @job(name=WRAPPER)
        def wrapper(_data):
            pass

        @job(name="Telling")
        def telling():
            started.set()

        @job(name="Endless")
        def endless():
            started.set()
            while True:  # not one long wait, which would not notice its interruption
                threading.Event().wait(0.01)

        yield


def push(redis, job_class, **attributes):
    payload = {"class": job_class, "args": [], "jid": "a", "retry": False, **attributes}
    redis.lpush("queue:default", json.dumps(payload))


def counted(redis, version="8"):
    """Field → count, over the minutes that the test took."""
    found = {}
    for key in redis.scan_iter(BUCKETS[version], count=1000):
        for name, count in redis.hgetall(key).items():
            found[name.decode()] = found.get(name.decode(), 0) + int(count)
    return found


def work_off(redis, redis_url, jobs, **settings):
    """Run a worker until so many jobs were counted as processed, and end it: its milliseconds."""
    since = time.monotonic()
    with launched(redis_url, **settings):
        wait_until(lambda: redis.get("stat:processed") == str(jobs).encode())
    return (time.monotonic() - since) * 1000


@pytest.mark.parametrize("version", BUCKETS)
def test_each_execution_counts_under_its_class_and_only_successes_have_a_time(
    redis, redis_url, version
):
    for name in ("Quick", "Quick", "Failing", "OnLoop", "MakesRoom", "Unknown"):
        push(redis, name)
    push(redis, WRAPPER, args=[{}], wrapped="Nightly")
    redis.lpush("queue:default", "{no json")

    whole_ms = work_off(redis, redis_url, 8)

    found = counted(redis, version)
    times = {name: found.pop(name) for name in sorted(found) if name.endswith("|ms")}
    assert list(times) == ["MakesRoom|ms", "Nightly|ms", "OnLoop|ms", "Quick|ms"]
    assert times["OnLoop|ms"] >= 20
    assert max(times.values()) < 2 * whole_ms  # of two executions at most
    once = {"Failing|f": 1, "Failing|p": 1, "OnLoop|p": 1, "Nightly|p": 1}
    assert found == {"Quick|p": 2, "MakesRoom|p": 2, **once}  # as an iterable job: twice
    assert redis.zcard("dead") == 1


def test_jobs_in_the_process_pool_are_measured_here(redis, redis_url, tmp_path):
    path = tmp_path / "measured_in_a_process.py"
    path.write_text(JOB_OF_A_PROCESS)
    load_all((str(path),))
    for fails in (False, True, False):
        push(redis, "InAProcess", args=[fails])

    whole_ms = work_off(redis, redis_url, 3, require=[str(path)])

    found = counted(redis)
    assert found.pop("InAProcess|ms") < 2 * whole_ms
    assert found == {"InAProcess|f": 1, "InAProcess|p": 3}


def test_a_job_that_the_shutdown_interrupts_counts_as_failed(redis, redis_url, started):
    push(redis, "Endless")
    with launched(redis_url, timeout_s="0.1"):
        assert started.wait(10)

    assert counted(redis) == {"Endless|f": 1, "Endless|p": 1}
    assert redis.llen("queue:default") == 1


def test_what_no_beat_has_written_yet_is_written_at_the_end(redis, redis_url, started):
    with launched(redis_url, beat_s="60"):
        push(redis, "Telling")
        assert started.wait(10)

    assert counted(redis)["Telling|p"] == 1


def test_each_beat_writes_what_is_new(redis, redis_url):
    with launched(redis_url):
        for count in (1, 2, 3):
            push(redis, "Quick")
            wait_until(lambda count=count: counted(redis).get("Quick|p") == count)

    assert counted(redis)["Quick|p"] == counted(redis, "7")["Quick|p"] == 3


@pytest.mark.parametrize(("setting", "versions"), [("off", ""), ("7", "7"), ("8", "8")])
def test_only_the_chosen_forms_are_written(redis, redis_url, setting, versions):
    push(redis, "Quick")

    work_off(redis, redis_url, 1, metrics=setting)

    assert "".join(version for version in BUCKETS if counted(redis, version)) == versions
    assert not redis.keys("kb:metrics:*"), "gone with the sign-off"
