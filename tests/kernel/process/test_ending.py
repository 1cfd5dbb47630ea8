"""A worker that starts is whole or ends; one that is told to end does so in time, come what may."""

import signal
import time

import pytest

from kiqbridge.engine.stop import KILL_S, LAST_STEPS_S

TIMEOUT_S = 1
SLACK_S = 20
"""Beside other tests on a small machine; a worker that hangs would hang for ever."""

JOBS = """
import ctypes, os, signal, threading, time
from contextlib import contextmanager
from kiqbridge import job, server
from support.noting import note

@job(name="note")
def note_it(number):
    note(str(number))

@job
def short():
    note("begun")
    time.sleep(0.5)
    note("ended")

@job
def long():
    note("begun")
    time.sleep(1000)

HOW = os.environ.get("HOW", "")

def hang():
    time.sleep(1000)

def hang_in_c():
    ctypes.PyDLL(None).sleep(1000)  # it keeps the interpreter lock

if HOW == "loading":
    print("loading", flush=True)
    while True:
        time.sleep(0.1)
event, _, what = HOW.partition(" ")
if event in ("startup", "quiet", "shutdown", "exit"):
    @server.on(event)
    def last():
        note("the next listener")
    @server.on(event)
    def hanging_listener():
        print("listening", flush=True)
        globals()[what]()
if event == "resource":
    @server.lifespan
    @contextmanager
    def database():
        yield
        hang()
if HOW == "no threads":
    really_start = threading.Thread.start
    def start(self):
        if self.name.startswith("kiqbridge-pauses"):
            raise RuntimeError("can't start new thread")
        really_start(self)
    threading.Thread.start = start
if HOW == "no more threads":
    @job
    def use_up():
        threading.stack_size(1 << 40)  # none can be started from now on
        note("used up")
if HOW == "odd queue":
    from kiqbridge.client.server import CapsuleSetup
    server.capsules["odd"] = CapsuleSetup(
        name="odd", queues=(("\\ud800", 0),), concurrency=2, middleware=None
    )
"""


FLAGS = ("-t", str(TIMEOUT_S))


def ended_within(worker, bound_s):
    """Send TERM; the exit status, which must come in time."""
    began = time.monotonic()
    status = worker.stop(bound_s + SLACK_S)
    assert time.monotonic() - began < bound_s + SLACK_S
    return status


@pytest.mark.slow
@pytest.mark.parametrize("event", ["quiet", "shutdown", "exit"])
def test_a_listener_that_hangs_keeps_no_worker_from_giving_back_and_signing_off(
    start, redis, client, seen, event
):
    worker = start(HOW=f"{event} hang")
    jid = client.push({"class": "long", "args": []})
    seen.wait("begun")

    assert ended_within(worker, TIMEOUT_S + LAST_STEPS_S) == 0

    assert jid.encode() in redis.lindex("queue:default", 0)
    assert redis.scard("kb:inflight") == 0, worker.output
    assert redis.scard("processes") == 0
    assert f"a listener to {event} has not returned" in worker.output
    assert "hanging_listener" in worker.output


@pytest.mark.slow
def test_a_resource_whose_close_hangs_does_not_keep_the_worker_from_signing_off(start, redis):
    worker = start(HOW="resource")

    assert ended_within(worker, TIMEOUT_S + LAST_STEPS_S) == 0

    assert redis.scard("kb:inflight") == 0
    assert "closing a resource takes longer than 3 s" in worker.output


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_a_worker_whose_interpreter_is_held_by_c_is_killed_by_the_kernel(start, redis, flags):
    worker = start(*flags, ready="is ready", HOW="shutdown hang_in_c")
    began = time.monotonic()

    status = ended_within(worker, TIMEOUT_S + LAST_STEPS_S)

    assert status == (0 if flags else -signal.SIGKILL)
    assert time.monotonic() - began > TIMEOUT_S + KILL_S - 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_whose_code_hangs_while_it_is_loaded_ends_at_once(start, number):
    worker = start(HOW="loading", ready=False)
    worker.wait_for_output("loading", SLACK_S)

    worker.signal(number)

    assert worker.wait(SLACK_S) == 0
    assert "ending while the code of the jobs is being loaded" in worker.output


def test_a_startup_listener_that_hangs_does_not_keep_term_from_being_obeyed(start, redis):
    worker = start(HOW="startup hang", ready=False)
    worker.wait_for_output("listening", SLACK_S)

    assert ended_within(worker, TIMEOUT_S + LAST_STEPS_S) == 0

    assert redis.scard("kb:inflight") == 0


@pytest.mark.parametrize(
    ("how", "reason"),
    [("no threads", "can't start new thread"), ("odd queue", "the first claim of jobs failed")],
)
def test_a_start_that_fails_anywhere_ends_the_process_with_1_and_the_reason(
    start, redis, how, reason
):
    worker = start(ready=False, HOW=how)

    assert worker.wait(60) == 1

    last = worker.output.splitlines()[-1]
    assert last.startswith("kiqbridge: ")
    assert reason in last
    assert "is ready" not in worker.output
    assert redis.scard("kb:inflight") == 0


@pytest.mark.parametrize("fetch", ["reliable", "basic"])
def test_a_worker_is_ready_only_when_its_threads_can_claim(start, redis, client, seen, fetch):
    redis.set("paused", "of another type")
    client.push({"class": "note", "args": [1]})
    worker = start(ready=False, KIQBRIDGE_FETCH=fetch)
    worker.wait_for_output("WRONGTYPE", SLACK_S)
    assert "is ready" not in worker.output

    redis.delete("paused")

    worker.wait_for_output("is ready", SLACK_S)
    seen.wait("1")
    assert worker.stop() == 0


def test_a_worker_that_can_start_no_thread_ends_in_order_all_the_same(start, redis, client, seen):
    worker = start("-t", "60", ready="is ready", HOW="no more threads")
    client.push({"class": "use_up", "args": []})
    seen.wait("used up")
    client.push({"class": "short", "args": []})
    seen.wait("begun")

    assert worker.stop(60) == 0

    assert seen.events()[-1] == "ended"
    assert redis.scard("kb:inflight") == redis.scard("processes") == 0
