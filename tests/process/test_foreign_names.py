"""A worker amid names that are no UTF-8: in each set and hash that it looks at."""

import time
from pathlib import Path

import pytest
from support.fleet import lists_in_flight
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge.client.client import Client

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "forking.py"
NAME = b"caf\xe9\xff"


@pytest.fixture
def start(redis_url, tmp_path):
    workers = []

    def start(fetch):
        worker = WorkerProcess(
            "-r",
            str(JOBS),
            "-c",
            "2",
            redis_url=redis_url,
            env={
                "MARKS": str(tmp_path),
                "KIQBRIDGE_LOG_FORMAT": "plain",
                "KIQBRIDGE_FETCH": fetch,
                "KIQBRIDGE_BEAT_S": "0.2",
            },
        )
        workers.append(worker)
        worker.wait_for_output("is ready", 60)
        return worker

    yield start
    for worker in workers:
        worker.close()


def add_names(redis):
    for key in (
        "paused",
        "processes",
        "queues",
        "kb:ledgers",
        "kb:careful",
        "kb:inflight",
        "kb:reaping",
    ):
        redis.sadd(key, NAME)
    redis.hset("kb:paused", mapping={b"queue:" + NAME: "{}", b"class:" + NAME: NAME, NAME: NAME})


def done(tmp_path):
    path = tmp_path / "seen"
    return path.read_text().count('"note"') if path.exists() else 0


@pytest.mark.parametrize("fetch", ["reliable", "basic"])
def test_a_worker_minds_no_name_that_is_no_utf_8(start, redis, redis_url, tmp_path, fetch):
    add_names(redis)
    worker = start(fetch)
    client = Client(redis_url)

    client.push_bulk({"class": "Note", "args": [[number] for number in range(50)]})
    client.push({"class": "NoteLater", "args": [50]})
    client.push({"class": "NoteInProcess", "args": [51]})
    client.push({"class": "Note", "args": [52], "at": time.time() + 0.5})
    wait_until(lambda: done(tmp_path) == 53, 60, lambda: f"{done(tmp_path)}; {worker.output}")

    wait_until(lambda: not redis.sismember("processes", NAME), 30, "the process off the list")

    redis.delete("paused", "kb:paused")
    add_names(redis)  # news for who watches
    # Beats and looks go on: they are what comes after the names were read.
    beats = redis.hgetall(worker_hash(redis, worker))[b"beat"]
    wait_until(lambda: redis.hgetall(worker_hash(redis, worker))[b"beat"] != beats, 30, "a beat")
    client.push({"class": "Note", "args": [53]})
    wait_until(lambda: done(tmp_path) == 54, 60, lambda: f"{done(tmp_path)}; {worker.output}")
    wait_until(lambda: not lists_in_flight(redis), 30, lambda: f"{lists_in_flight(redis)}")
    client.close()
    assert "Traceback" not in worker.output
    assert "UnicodeDecodeError" not in worker.output
    assert worker.stop() == 0


def worker_hash(redis, worker):
    [name] = [key for key in redis.smembers("processes") if b":%d:" % worker.pid in key]
    return name
