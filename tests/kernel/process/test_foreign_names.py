"""A worker amid names that are no UTF-8: in each set and hash that it looks at."""

import time
from pathlib import Path

import pytest
from support.fleet import lists_in_flight
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "forking.py"
NAME = b"caf\xe9\xff"


FLAGS = ("-c", "2")
ENV = {"KIQBRIDGE_BEAT_S": "0.2"}


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


@pytest.mark.parametrize("fetch", ["reliable", "basic"])
def test_a_worker_minds_no_name_that_is_no_utf_8(start, redis, client, seen, fetch):
    add_names(redis)
    worker = start(ready="is ready", KIQBRIDGE_FETCH=fetch)

    client.push_bulk({"class": "Note", "args": [[number] for number in range(50)]})
    client.push({"class": "NoteLater", "args": [50]})
    client.push({"class": "NoteInProcess", "args": [51]})
    client.push({"class": "Note", "args": [52], "at": time.time() + 0.5})
    seen.wait("note", 53)

    wait_until(lambda: not redis.sismember("processes", NAME), 30, "the process off the list")

    redis.delete("paused", "kb:paused")
    add_names(redis)  # news for who watches
    # Beats and looks go on: they are what comes after the names were read.
    beats = redis.hgetall(worker_hash(redis, worker))[b"beat"]
    wait_until(lambda: redis.hgetall(worker_hash(redis, worker))[b"beat"] != beats, 30, "a beat")
    client.push({"class": "Note", "args": [53]})
    seen.wait("note", 54)
    wait_until(lambda: not lists_in_flight(redis), 30, lambda: f"{lists_in_flight(redis)}")
    assert "Traceback" not in worker.output
    assert "UnicodeDecodeError" not in worker.output
    assert worker.stop() == 0


def worker_hash(redis, worker):
    [name] = [key for key in redis.smembers("processes") if b":%d:" % worker.pid in key]
    return name
