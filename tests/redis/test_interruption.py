"""An interruption that comes while a job is in a function of ours which asks Redis: it lands where that call ends."""

import asyncio
import threading
import time

import pytest
from support.runners import RunnerStand, kept, payload
from support.stacks import running_threads

from kiqbridge import Client, Schedules, job
from kiqbridge.api import Stats
from kiqbridge.client.registry import definition_of
from kiqbridge.errors import JobTimeout
from kiqbridge.flow import BatchSet, limiter
from kiqbridge.results import await_result, fetch_result
from kiqbridge.runtime.interruption import PENDING
from kiqbridge.runtime.limits import Timekeeper
from kiqbridge.store.redis_pool import RedisPool

TIMEOUT_S = 0.1
LONG_S = 20.0


@pytest.fixture
def full(client):
    """A limiter without room."""
    erp = limiter.concurrent("erp", 1, client=client, wait_timeout_s=LONG_S)
    with erp.within_limit():
        yield erp


def again_and_again(call):
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        call()


def enter(limit):
    with limit.within_limit():
        pass


def push_through_hanging(client):
    async def hangs(_class, _item, _queue, _call_next):
        await asyncio.sleep(LONG_S)

    client.middleware.add(hangs)
    client.push({"class": "Any", "args": []})


CALLS = {
    "waits for a limiter": lambda client, full: enter(full),
    "waits for a result": lambda client, full: await_result(
        "a" * 24, timeout_s=LONG_S, client=client
    ),
    "enters a limiter": lambda client, full: again_and_again(
        lambda: enter(limiter.concurrent("free", 3, client=client))
    ),
    "asks for a result": lambda client, full: again_and_again(
        lambda: fetch_result("a" * 24, client=client)
    ),
    "lists batches": lambda client, full: again_and_again(lambda: list(BatchSet(client=client))),
    "lists schedules": lambda client, full: again_and_again(lambda: list(Schedules(client=client))),
    "counts": lambda client, full: again_and_again(lambda: Stats(client)),
    "pushes": lambda client, full: again_and_again(
        lambda: client.push({"class": "Any", "args": []})
    ),
    "pushes through middleware that hangs": lambda client, full: push_through_hanging(client),
    "pushes many": lambda client, full: again_and_again(
        lambda: client.push_bulk({"class": "Any", "args": [[1], [2]]})
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_job_that_does_nothing_else_is_ended(client, redis, full, call):
    def work():
        with Timekeeper().limit(TIMEOUT_S):
            CALLS[call](client, full)

    began = time.monotonic()
    with running_threads() as run:
        state = run(work)
        state.thread.join(2 * LONG_S)

    assert type(state.error) is JobTimeout
    assert time.monotonic() - began < LONG_S / 2
    assert PENDING == {}
    assert redis.hlen("kb:limit:concurrent:erp") == 1  # the lock of this test
    assert not redis.exists("kb:limit:concurrent:free")


def test_a_job_that_waits_for_its_own_limiter_is_ended(full):
    @job(name="WaitsForItsLimiter", timeout_s=TIMEOUT_S, limiter=full)
    def waits():
        pass

    runner = RunnerStand()
    runner.registry.register(definition_of(waits))
    began = time.monotonic()

    failed = kept(runner.run(payload(**{"class": "WaitsForItsLimiter"})))
    runner.close()

    assert failed["error_class"] == "kiqbridge.errors.JobTimeout"
    assert time.monotonic() - began < LONG_S / 2


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
