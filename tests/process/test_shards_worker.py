"""`kiqbridge worker` on two servers: a process for each, under one supervisor."""

import json
import signal
import sys
from collections import Counter
from contextlib import ExitStack

import pytest
from support.processes import ChildProcess
from support.servers import embedded_server, find_free_port
from support.shards import sharded
from support.waiting import wait_until
from support.workers import WorkerProcess

JOBS = """
import os
from kiqbridge import job

def note(text):
    handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, f"{text} {os.getpid()}\\n".encode())
    os.close(handle)

@job
def note_it(name):
    note(name)

@job(queue="mail")
def relay(name):
    note("relay " + name)
    note_it.perform_async(name)

@job(queue="mail", pool="process")
def relay_from_child(name):
    note_it.perform_async(name)

@job(queue="mail", retry=1)
def fails_once(name):
    note("try " + name)
    if not os.path.exists(os.environ["NOTES"] + "." + name):
        open(os.environ["NOTES"] + "." + name, "w").close()
        raise RuntimeError(name)
"""
QUEUES = {"mail": ["mail"], "rest": ["*"]}


@pytest.fixture
def servers():
    with embedded_server() as mail, embedded_server() as rest:
        yield {"mail": mail, "rest": rest}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "shop_jobs.py").write_text(JOBS)
    return tmp_path


@pytest.fixture
def start(place):
    with ExitStack() as stack:

        def start(shards, *args, ready="is ready: ", **env):
            worker = WorkerProcess(
                *("-r", "shop_jobs.py", "-c", "2", *args),
                redis_url="redis://nowhere.invalid:1/0",
                cwd=place,
                env={
                    **shards.environ,
                    "NOTES": str(place / "notes"),
                    "KIQBRIDGE_BEAT_S": "0.1",
                    "KIQBRIDGE_RECOVER_AFTER_S": "3",
                    "KIQBRIDGE_LOG_FORMAT": "plain",
                    "KIQBRIDGE_RUN_DIR": str(place / "run"),
                    **env,
                },
            )
            stack.enter_context(worker)
            worker.wait_for_output(ready)
            return worker

        yield start


@pytest.fixture
def noted(place):
    def noted():
        path = place / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.rpartition(" ")[0] for line in lines)

    return noted


def on(servers):
    return sharded({name: each.url for name, each in servers.items()}, QUEUES)


def pids(shards):
    return {name: {int(each.split(b":")[-2]) for each in raw.smembers("processes")} for name, raw in shards.raw.items()}  # fmt: skip


def health(place, *args):
    command = [sys.executable, "-m", "kiqbridge", "health", "--run-dir", str(place / "run"), *args]
    with ChildProcess(command) as process:
        return process.wait(), process.output


def test_each_shard_has_a_process_that_performs_what_lies_there(servers, start, noted, place):
    shards = on(servers)
    worker = start(shards, "-v", ready="all 2 processes are ready")
    client = shards.client()
    client.push({"class": "relay", "args": ["one"], "queue": "mail"})
    client.push({"class": "relay_from_child", "args": ["two"], "queue": "mail"})
    client.push({"class": "fails_once", "args": ["again"], "queue": "mail"})
    # In the wrong place, as a Ruby process may push it that knows of one server.
    client.on("mail").push({"class": "note_it", "args": ["astray"], "queue": "default"})

    worker.wait_for(
        lambda: set(noted()) == {"relay one", "one", "two", "astray", "try again"}, what="the jobs"
    )
    wait_until(lambda: shards.raw["rest"].get("stat:processed") == b"2", what="its counters")
    assert shards.raw["mail"].scard("queues") == 2, "mail, and default where one went astray"
    found = pids(shards)
    assert [len(each) for each in found.values()] == [1, 1]
    assert found["mail"] != found["rest"]
    [identity] = shards.raw["mail"].smembers("processes")
    assert shards.raw["mail"].hget(identity, "kb_shard") == b"mail"
    assert json.loads(shards.raw["mail"].hget(identity, "info"))["queues"] == ["default", "mail"]
    assert "shard mail at redis://127.0.0.1" in worker.output
    assert "queues mail; also served there, should jobs of them come: default" in worker.output
    code, text = health(place)
    assert code == 0, text
    assert "of shard mail is ready" in text

    wait_until(lambda: shards.raw["mail"].zcard("retry") == 1, what="the retry where the job was")
    assert shards.raw["rest"].zcard("retry") == 0

    worker.signal(signal.SIGUSR2)
    worker.wait_for(lambda: all(not found[name] & now for name, now in pids(shards).items() if now) and all(pids(shards).values()), what="their successors")  # fmt: skip
    assert worker.stop() == 0
    assert pids(shards) == {"mail": set(), "rest": set()}
    assert not [raw.keys("kb:inflight*") for raw in shards.raw.values() if raw.keys("kb:inflight*")]
    client.close()


def test_a_shard_that_is_away_stops_only_its_own_queues(servers, start, noted):
    shards = on(servers)
    worker = start(shards, ready="all 2 processes are ready")
    client = shards.client()
    for number in range(20):
        client.push({"class": "note_it", "args": [f"mail {number}"], "queue": "mail"})
    servers["mail"].pause()
    try:
        for number in range(20):
            client.push({"class": "note_it", "args": [f"rest {number}"]})
        worker.wait_for(
            lambda: sum(name.startswith("rest") for name in noted()) == 20, what="the other's jobs"
        )
    finally:
        servers["mail"].resume()

    client.push({"class": "note_it", "args": ["mail again"], "queue": "mail"})
    worker.wait_for(lambda: len(noted()) == 41, what="its own jobs")
    assert worker.stop() == 0
    assert not shards.raw["mail"].llen("queue:mail")
    client.close()


def test_a_shard_that_is_away_at_the_start_keeps_no_other_waiting(start, noted, place):
    port = find_free_port()
    with embedded_server() as rest:
        shards = sharded({"mail": f"redis://127.0.0.1:{port}/0", "rest": rest.url}, QUEUES)
        worker = start(
            shards,
            ready="1 of 2 processes are ready; shards that have not been reached: mail",
            KIQBRIDGE_START_PERIOD_S="1",
        )
        client = shards.client()
        client.push({"class": "note_it", "args": ["rest"]})
        worker.wait_for(lambda: noted()["rest"], what="the other's job")
        wait_until(lambda: health(place, "--live")[0] == 0, what="health")
        code, text = health(place, "--ready")
        assert code == 1
        assert "of shard mail is not ready: it is starting" in text

        with embedded_server(port=port):
            client.push({"class": "note_it", "args": ["mail"], "queue": "mail"})
            worker.wait_for(lambda: noted()["mail"], what="its own job")
            assert worker.stop() == 0
        client.close()


def test_one_shard_can_be_served_alone_without_a_supervisor(servers, start, noted):
    shards = on(servers)
    worker = start(shards, "--shard", "rest")
    assert "supervisor" not in worker.output
    assert f"shard rest, Redis {servers['rest'].url.rpartition('/')[0]}" in worker.output
    shards.client().push({"class": "note_it", "args": ["here"]})
    worker.wait_for(lambda: noted()["here"], what="its job")
    assert pids(shards) == {"mail": set(), "rest": {worker.pid}}
    assert worker.stop() == 0
