"""The real command when jobs run longer than their `max_run_s`: in each pool, and as suspects."""

import json

import pytest
from support.notes import Notes
from support.processes import ran
from support.waiting import wait_until

pytestmark = pytest.mark.slow

PATIENT_S = 60


@pytest.fixture
def seen(tmp_path):
    """What the jobs note."""
    return Notes(tmp_path)


JOBS = """
import asyncio, threading, time
from kiqbridge import job, server
from support.noting import is_first, note

def hang():
    try:
        while True:
            time.sleep(0.01)
    finally:
        note("interrupted")

@job
def note_it(name):
    note(name)

@job(max_run_s=1)
def plain():
    if is_first("plain"):
        hang()
    note("done plain")

@job(max_run_s=1)
async def asynchronous():
    if is_first("asynchronous"):
        try:
            await asyncio.sleep(600)
        finally:
            note("interrupted")
    note("done asynchronous")

@job(max_run_s=8, pool="process")  # the start of a child process counts
def pooled():
    if is_first("pooled"):
        time.sleep(600)
    note("done pooled")

@job(max_run_s=1, on_max_run="dead", retry=False)
def fatal():
    hang()

@job(max_run_s=1)
def always():
    note("begin always")
    hang()

@job(max_run_s=1)
def stuck_in_c():
    note("begin stuck")
    lock = threading.Lock()
    lock.acquire()
    if is_first("stuck"):
        lock.acquire()

@job(max_run_s=600)
def patient():
    time.sleep(3)
    note("done patient")

@server.death_handler
def died(payload, error):
    note("died " + payload["class"] + " " + type(error).__name__)
"""


FLAGS = ("-t", "2")
ENV = {"KIQBRIDGE_BEAT_S": "0.5", "KIQBRIDGE_STUCK_AFTER_S": "5"}


def push(client, name, *args):
    return client.push({"class": name, "args": list(args)})


def status(tmp_path):
    return json.loads(ran("health", "--json", "--run-dir", tmp_path / "run")[1])["workers"][0]


def nothing_is_left(redis):
    return not redis.keys("kb:inflight*") and not redis.llen("queue:default")


@pytest.mark.parametrize("name", ["plain", "asynchronous", "pooled"])
def test_a_job_that_runs_too_long_is_given_to_another(  # noqa: PLR0917 - fixtures
    redis, start, client, seen, tmp_path, name
):
    worker = start("-c", "2")
    jid = push(client, name)

    seen.wait(f"done {name}")

    limit = 8 if name == "pooled" else 1
    told = f"job {jid} of queue default ran longer than its max_run_s of {limit} s"
    worker.wait_for_output(told, PATIENT_S)
    wait_until(lambda: redis.get(f"kb:recovered:{jid}") == b"1", PATIENT_S)
    if name != "pooled":
        seen.wait("interrupted")
    push(client, "note_it", "afterwards")
    push(client, "note_it", "afterwards too")
    wait_until(lambda: {"afterwards", "afterwards too"} <= set(seen.events()), PATIENT_S)
    wait_until(lambda: status(tmp_path)["overran"] == 1, PATIENT_S)
    assert status(tmp_path)["ended_threads"] == []
    assert worker.stop() == 0
    assert nothing_is_left(redis)
    assert redis.zcard("retry") == redis.zcard("dead") == 0
    assert seen.events().count(f"done {name}") == 1


def test_one_that_shall_die_goes_to_the_dead_set(redis, start, client, seen):
    worker = start("-c", "1")
    push(client, "fatal")

    wait_until(lambda: redis.zcard("dead"), PATIENT_S)
    seen.wait("died fatal JobOverran")
    seen.wait("interrupted")
    [dead] = map(json.loads, redis.zrange("dead", 0, -1))

    assert dead["error_class"] == "kiqbridge.errors.JobOverran"
    assert dead["error_message"] == "ran longer than its max_run_s of 1 s, and was taken away"
    assert (dead["class"], dead["queue"]) == ("fatal", "default")
    push(client, "note_it", "afterwards")
    seen.wait("afterwards")
    assert worker.stop() == 0
    assert nothing_is_left(redis)


def test_one_that_always_runs_too_long_ends_up_alone_and_fails(redis, start, client, seen):
    worker = start("-c", "2")
    jid = push(client, "always")

    wait_until(lambda: redis.zcard("retry"), PATIENT_S)
    [failed] = map(json.loads, redis.zrange("retry", 0, -1))

    assert failed["jid"] == jid
    assert failed["error_class"] == "kiqbridge.errors.JobTimeout"
    assert seen.events().count("begin always") == 4  # three times here, and once alone
    worker.wait_for_output("that was the 3. time, so it runs alone", PATIENT_S)
    assert worker.output.count("ran longer than its max_run_s") == 3


def test_a_thread_that_does_not_come_back_is_replaced(redis, start, client, seen, tmp_path):
    worker = start("-c", "1")
    push(client, "stuck_in_c")
    seen.wait("begin stuck")
    push(client, "note_it", "afterwards")

    seen.wait("afterwards")

    worker.wait_for_output("another thread takes its place", PATIENT_S)
    assert seen.events().count("begin stuck") == 2  # the other thread got it as well
    wait_until(lambda: status(tmp_path)["lost_threads"] == 1, PATIENT_S)
    wait_until(lambda: status(tmp_path)["ok"], PATIENT_S, lambda: str(status(tmp_path)))
    assert worker.stop() == 0
    assert nothing_is_left(redis)


def test_a_job_within_its_limit_is_left_alone(redis, start, client, seen):
    worker = start("-c", "1")
    push(client, "patient")

    seen.wait("done patient")

    assert "max_run_s" not in worker.output
    assert worker.stop() == 0
    assert nothing_is_left(redis)
