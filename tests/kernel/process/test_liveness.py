"""The real command when one of its threads does not get on."""

import json
import time

import pytest
from support.processes import ran
from support.waiting import wait_until
from support.workers import find_identity

pytestmark = pytest.mark.slow

STUCK_S = 5
END_S = 8
PATIENT_S = 60
"""Beyond the bounds, on a machine that is busy with other things."""

JOBS = """
import gc, os, threading, time
from kiqbridge import job, server
from support.noting import FOLDER, hold, note

@job
def note_it(name):
    note(name)

@job
def until_open(name):
    note("begin " + name)
    hold()
    note("end " + name)

@job
async def later(name):
    note(name)

@job
def end_thread(kind):
    # What no error does any more: its loop comes to its end.
    [part] = [each for each in gc.get_objects() if type(each).__name__ == kind]
    stopping = part._stopping
    stopping.set()
    if hasattr(part, "_some"):
        part._some.set()
    while getattr(part, "thread", part).alive:
        time.sleep(0.001)
    stopping.clear()
    note("ended " + kind)

@job
def end_own_thread():
    [mine] = [
        each for each in gc.get_objects()
        if type(each).__name__ == "Processor" and each._thread is threading.current_thread()
    ]
    mine._quiet = True
    note("ended its thread")

@server.on("beat")
def listener_that_hangs():
    if (FOLDER / "hang").exists():
        (FOLDER / "hang").unlink()
        note("hangs")
        threading.Event().wait()
"""


FLAGS = ("-c", "2", "-t", "2")
ENV = {
    "KIQBRIDGE_BEAT_S": "0.5",
    "KIQBRIDGE_STUCK_AFTER_S": str(STUCK_S),
    "KIQBRIDGE_END_STUCK_AFTER_S": str(END_S),
}


def health(tmp_path, *args):
    """What `kiqbridge health` answers as JSON."""
    return json.loads(ran("health", "--json", "--run-dir", tmp_path / "run", *args)[1])


def test_a_thread_that_hangs_is_reported_and_ends_the_process(redis, start, client, seen, tmp_path):
    worker = start()
    push(client, "until_open", "a")
    seen.wait("begin a")
    assert health(tmp_path, "--live")["ok"]

    (tmp_path / "hang").touch()
    wait_until(lambda: not health(tmp_path, "--live")["ok"], PATIENT_S)
    worker.wait_for_output("thread heartbeat has been stuck", PATIENT_S)
    [fault] = health(tmp_path, "--live")["workers"][0]["faults"][:1]

    assert worker.wait(PATIENT_S) == 70
    assert fault in (
        "its thread heartbeat has been stuck for more than 5 s",
        "it ends itself, since a thread was stuck or could not be started anew",
    )
    assert "in listener_that_hangs" in worker.output
    assert "this process stops and ends with status 70" in worker.output
    assert "without signing off" not in worker.output, "it did not wait for the stuck thread"
    assert redis.llen("queue:default") == 1, "the job that it was running was given back"
    assert redis.scard("kb:inflight") == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Heartbeat", "heartbeat"),
        ("Poller", "poller"),
        ("Bookkeeper", "bookkeeper"),
    ],
)
def test_a_thread_that_has_ended_is_started_anew(
    redis, start, client, seen, tmp_path, *, kind, name
):
    worker = start()
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)

    push(client, "end_thread", kind)
    seen.wait(f"ended {kind}")
    worker.wait_for_output(f"thread {name} has ended though it should run")
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)
    push(client, "note_it", "plain")
    push(client, "later", "async")
    push(client, "note_it", "scheduled", at=time.time() + 0.5)

    wait_until(lambda: {"plain", "async", "scheduled"} <= set(seen.events()), PATIENT_S)
    assert worker.stop() == 0
    assert redis.scard("kb:inflight") == 0


def test_a_processor_that_has_ended_is_replaced(redis, start, client, seen, tmp_path):
    worker = start("-c", "1")
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)

    for number in range(3):
        push(client, "end_own_thread")
        wait_until(
            lambda number=number: seen.events().count("ended its thread") == number + 1, PATIENT_S
        )
    push(client, "note_it", "afterwards")

    seen.wait("afterwards")
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)
    assert health(tmp_path)["workers"][0]["restarted_threads"] == 3
    assert worker.stop() == 0
    assert redis.scard("kb:inflight") == 0
    assert redis.get("stat:processed") == b"4"


def test_health_and_the_process_hash_show_how_old_things_are(redis, start, client, seen, tmp_path):
    worker = start()
    push(client, "until_open", "a")
    seen.wait("begin a")
    identity = find_identity(redis, worker.pid)

    def ages():
        [told] = health(tmp_path)["workers"]
        return told["ages"]

    wait_until(lambda: (ages()["oldest_job_s"] or 0) > 1, PATIENT_S)
    wait_until(lambda: float(redis.hget(identity, "kb_oldest_job_s") or 0) > 1, PATIENT_S)
    assert ages()["last_recovery"] is None
    assert ages()["poller_lag_s"] is None
    seen.release()
    wait_until(lambda: ages()["oldest_job_s"] is None, PATIENT_S)
    wait_until(lambda: redis.hget(identity, "kb_oldest_job_s") == b"", PATIENT_S)


def test_a_recovery_is_shown_with_its_outcome(redis, start, client, seen, tmp_path):
    victim = start("-c", "1", KIQBRIDGE_RECOVER_AFTER_S="3")
    push(client, "until_open", "a")
    seen.wait("begin a")
    victim.kill()
    seen.release()
    start("-c", "1", KIQBRIDGE_RECOVER_AFTER_S="3")

    def recovery():
        return [
            told["ages"]["last_recovery"]
            for told in health(tmp_path)["workers"]
            if told["ages"]["last_recovery"]
        ]

    [last] = wait_until(recovery, PATIENT_S)

    assert (last["returned"], last["suspected"], last["blocked"]) == (1, 0, [])
    assert f":{victim.pid}:" in last["process"]
    assert 0 <= last["ago_s"] < PATIENT_S


def push(client, name, *args, **more):
    client.push({"class": name, "args": list(args), **more})
