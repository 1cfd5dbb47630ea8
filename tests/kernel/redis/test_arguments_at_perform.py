"""Jobs whose arguments do not fit die at once in a worker; those that Ruby writes right are performed."""

import asyncio
import json
from datetime import date

import pytest
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge import Job, job
from kiqbridge.client.server import Server

PLENTY_S = 60
NAMES = ("OnThread", "OnLoop", "AsClass")


@pytest.fixture
def received():
    seen = []
    with own_declarations():

        @job(name="OnThread")
        def on_thread(day: date) -> None:
            seen.append(("OnThread", day))

        @job(name="OnLoop")
        async def on_loop(day: date) -> None:
            await asyncio.sleep(0)
            seen.append(("OnLoop", day))

        class AsClass(Job):
            def perform(self, day: date) -> None:
                seen.append(("AsClass", day))

        yield seen


@pytest.fixture
def died():
    return []


@pytest.fixture
def worker(redis_url, received, died):
    setup = Server()
    setup.death_handlers.append(lambda payload, error: died.append((payload["class"], error)))
    with launched(redis_url, setup) as launcher:
        yield launcher


def test_what_fits_is_performed_and_what_does_not_is_dead_at_once(
    worker, client, redis, received, died
):
    for name in NAMES:
        client.push({"class": name, "args": ["2026-01-01"]})
        client.push({"class": name, "args": ["soon"]})

    wait_until(lambda: len(received) == len(died) == len(NAMES), PLENTY_S)
    wait_until(lambda: redis.zcard("dead") == len(NAMES), PLENTY_S)

    assert sorted(received) == sorted((name, date(2026, 1, 1)) for name in NAMES)
    dead = {each["class"]: each for each in map(json.loads, redis.zrange("dead", 0, -1))}
    for name in NAMES:
        assert dead[name]["error_class"] == "kiqbridge.errors.ArgumentMismatch"
        assert dead[name]["error_message"].startswith(f"day of {name}: expected date")
        assert dead[name]["args"] == ["soon"]
        assert dead[name]["retry_count"] == 0
    assert redis.zcard("retry") == 0
    assert sorted(name for name, _error in died) == sorted(NAMES)
