"""An interruption that comes while a job is in a function of ours which asks Redis: it lands where that call ends."""

import asyncio
import threading
import time

import pytest
from support.interrupting import LONG_S, again_and_again, is_ended

from kiqbridge import Client
from kiqbridge.api import Stats
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.interruption import PENDING, Timekeeper
from kiqbridge.store.redis_pool import RedisPool


def push_through_hanging(client):
    async def hangs(_class, _item, _queue, _call_next):
        await asyncio.sleep(LONG_S)

    client.middleware.add(hangs)
    client.push({"class": "Any", "args": []})


CALLS = {
    "lists schedules": lambda client: again_and_again(
        lambda: list_schedules(client.pool, client.keys)
    ),
    "counts": lambda client: again_and_again(lambda: Stats(client)),
    "pushes": lambda client: again_and_again(lambda: client.push({"class": "Any", "args": []})),
    "pushes through middleware that hangs": push_through_hanging,
    "pushes many": lambda client: again_and_again(
        lambda: client.push_bulk({"class": "Any", "args": [[1], [2]]})
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_job_that_does_nothing_else_is_ended(client, call):
    is_ended(lambda: CALLS[call](client))


THREADS = 8


def test_jobs_that_push_without_end_are_ended_and_no_connection_is_lost(redis_url, redis):
    pool = RedisPool(redis_url, size=4)
    client = Client(pool=pool, namespace="", profile="7")
    timekeeper = Timekeeper()
    outcomes = []

    def work():
        for _ in range(6):
            began = time.monotonic()
            try:
                with timekeeper.limit(0.1):
                    while True:
                        client.push({"class": "Sink", "args": []})
            except BaseException as error:  # noqa: BLE001 - looked at below
                outcomes.append((type(error), time.monotonic() - began))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [kind for kind, _ in outcomes] == [JobTimeout] * 6 * THREADS
    assert max(took for _, took in outcomes) < 10
    assert [pool._slots.get(timeout=5) for _ in range(4)]
    assert PENDING == {}


def test_a_push_that_fails_time_and_again_is_ended_as_well(redis_url):
    client = Client(pool=RedisPool("redis://127.0.0.1:1/0"), namespace="", profile="7")
    error = None

    def work():
        nonlocal error
        try:
            with Timekeeper().limit(0.1):
                while True:
                    try:
                        client.push({"class": "Sink", "args": []})
                    except JobTimeout:
                        raise
                    except Exception:  # noqa: BLE001 - what a stubborn job does
                        continue
        except BaseException as raised:  # noqa: BLE001 - looked at below
            error = raised

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)

    assert type(error) is JobTimeout
