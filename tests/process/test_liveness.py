"""The real command when one of its threads does not get on."""

import json
import time
import uuid

import pytest
from support.processes import ran
from support.waiting import wait_until
from support.workers import find_identity, started_workers

pytestmark = pytest.mark.slow

STUCK_S = 5
END_S = 8
PATIENT_S = 60
"""Beyond the bounds, on a machine that is busy with other things."""

JOBS = """
import gc, os, threading, time
from kiqbridge import job, server

def note(name):
    handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, (name + "\\n").encode())
    os.close(handle)

@job
def note_it(name):
    note(name)

@job
def until_open(name):
    note("begin " + name)
    while not os.path.exists(os.environ["NOTES"] + ".open"):
        time.sleep(0.01)
    note("end " + name)

@job
def asleep(seconds):
    note("begin asleep")
    time.sleep(seconds)
    note("end asleep")

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

hangs = os.environ["NOTES"] + ".hang"

@server.on("beat")
def listener_that_hangs():
    if os.path.exists(hangs):
        os.unlink(hangs)
        note("hangs")
        threading.Event().wait()
"""


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


@pytest.fixture
def start(redis_url, notes, tmp_path):
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    env = {
        "NOTES": str(notes),
        "KIQBRIDGE_RUN_DIR": str(tmp_path / "run"),
        "KIQBRIDGE_BEAT_S": "0.5",
        "KIQBRIDGE_STUCK_AFTER_S": str(STUCK_S),
        "KIQBRIDGE_END_STUCK_AFTER_S": str(END_S),
    }
    options = {"cwd": tmp_path, "redis_url": redis_url, "is_awaited": False}
    with started_workers("-r", "shop_jobs.py", "-c", "2", "-t", "2", env=env, **options) as start:
        yield start


def lines(notes):
    return notes.read_text().splitlines() if notes.exists() else []


def health(tmp_path, *args):
    """What `kiqbridge health` answers as JSON."""
    return json.loads(ran("health", "--json", "--run-dir", tmp_path / "run", *args)[1])


def test_a_thread_that_hangs_is_reported_and_ends_the_process(redis, start, notes, tmp_path):
    worker = start()
    worker.wait_ready()
    push(redis, "until_open", "a")
    wait_until(lambda: "begin a" in lines(notes))
    assert health(tmp_path, "--live")["ok"]

    notes.with_name("notes.hang").touch()
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
    assert redis.llen("queue:default") == 1, "the job that it was running was given back"
    assert redis.scard("kb:inflight") == 0


def test_a_supervisor_starts_another_process(redis, start, notes, tmp_path):
    worker = start("--processes", "2")
    worker.wait_for_output("all 2 processes are ready", PATIENT_S)

    notes.with_name("notes.hang").touch()
    worker.wait_for_output("ended with exit code 70", PATIENT_S)
    worker.wait_for_output("another is started in", PATIENT_S)

    def both_are_ready():
        answer = health(tmp_path, "--ready")
        return answer["ok"] and len(answer["workers"]) == 2

    wait_until(both_are_ready, PATIENT_S)
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Heartbeat", "heartbeat"),
        ("LeaseKeeper", "lease"),
        ("Poller", "poller"),
        ("PauseWatch", "pauses"),
        ("PrefetchRevoker", "revoker"),
        ("Bookkeeper", "bookkeeper"),
        ("Isolation", "isolation"),
    ],
)
def test_a_thread_that_has_ended_is_started_anew(redis, start, notes, tmp_path, *, kind, name):
    worker = start()
    worker.wait_ready()
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)

    push(redis, "end_thread", kind)
    wait_until(lambda: f"ended {kind}" in lines(notes), PATIENT_S)
    worker.wait_for_output(f"thread {name} has ended though it should run")
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)
    push(redis, "note_it", "plain")
    push(redis, "later", "async")
    redis.zadd("schedule", {payload("note_it", "scheduled"): time.time() + 0.5})

    wait_until(lambda: {"plain", "async", "scheduled"} <= set(lines(notes)), PATIENT_S)
    assert worker.stop() == 0
    assert redis.scard("kb:inflight") == 0


def test_a_processor_that_has_ended_is_replaced(redis, start, notes, tmp_path):
    worker = start("-c", "1")
    worker.wait_ready()
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)

    for number in range(3):
        push(redis, "end_own_thread")
        wait_until(
            lambda number=number: lines(notes).count("ended its thread") == number + 1, PATIENT_S
        )
    push(redis, "note_it", "afterwards")

    wait_until(lambda: "afterwards" in lines(notes), PATIENT_S)
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)
    assert health(tmp_path)["workers"][0]["restarted_threads"] == 3
    assert worker.stop() == 0
    assert redis.scard("kb:inflight") == 0
    assert redis.get("stat:processed") == b"4"


def test_health_and_the_process_hash_show_how_old_things_are(redis, start, notes, tmp_path):
    worker = start()
    worker.wait_ready()
    push(redis, "until_open", "a")
    wait_until(lambda: "begin a" in lines(notes), PATIENT_S)
    redis.sadd("paused", "default")  # so that the suspect waits
    redis.rpush("kb:suspects:default", payload("note_it", "suspect"))
    identity = find_identity(redis, worker.pid)

    def ages():
        [told] = health(tmp_path)["workers"]
        return told["ages"]

    wait_until(lambda: (ages()["oldest_job_s"] or 0) > 1, PATIENT_S)
    wait_until(lambda: float(redis.hget(identity, "kb_oldest_job_s") or 0) > 1, PATIENT_S)
    wait_until(lambda: ages()["suspects"] == {"default": 1}, PATIENT_S)
    wait_until(lambda: redis.hget(identity, "kb_suspects") == b"1", PATIENT_S)
    assert ages()["last_recovery"] is None
    assert ages()["poller_lag_s"] is None
    notes.with_name("notes.open").touch()
    wait_until(lambda: ages()["oldest_job_s"] is None, PATIENT_S)
    wait_until(lambda: redis.hget(identity, "kb_oldest_job_s") == b"", PATIENT_S)


def test_a_recovery_is_shown_with_its_outcome(redis, start, notes, tmp_path):
    victim = start("-c", "1", KIQBRIDGE_RECOVER_AFTER_S="3")
    victim.wait_ready()
    push(redis, "until_open", "a")
    wait_until(lambda: "begin a" in lines(notes), PATIENT_S)
    victim.kill()
    notes.with_name("notes.open").touch()
    rescuer = start("-c", "1", KIQBRIDGE_RECOVER_AFTER_S="3")
    rescuer.wait_ready()

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


def test_an_idle_worker_and_one_without_redis_are_not_stuck(redis, start, notes, tmp_path, server):
    worker = start(KIQBRIDGE_END_STUCK_AFTER_S="5")
    worker.wait_ready()
    assert find_identity(redis, worker.pid)
    server.pause()
    try:
        worker.wait_for_output("trying again", PATIENT_S)
        started = json.dumps(health(tmp_path, "--live"))
        wait_until(
            lambda: _written_at(health(tmp_path)) - _written_at(json.loads(started)) > 12, PATIENT_S
        )
        assert health(tmp_path, "--live")["ok"]
    finally:
        server.resume()
    wait_until(lambda: health(tmp_path, "--ready")["ok"], PATIENT_S)
    push(redis, "note_it", "back")
    wait_until(lambda: "back" in lines(notes), PATIENT_S)

    assert "stuck" not in worker.output


def _written_at(answer):
    [worker] = answer["workers"]
    return worker["written_at"]


def push(redis, name, *args):
    redis.sadd("queues", "default")
    redis.lpush("queue:default", payload(name, *args))


def payload(name, *args):
    jid = uuid.uuid4().hex[:24]
    return json.dumps({"class": name, "args": args, "jid": jid, "queue": "default", "retry": True})
