"""An interruption that comes while a job waits for a limiter, or enters one: it lands where that call ends."""

import time

import pytest
from support.interrupting import LONG_S, TIMEOUT_S, again_and_again, is_ended
from support.runners import RunnerStand, kept, payload

from kiqbridge import job
from kiqbridge.client.registry import definition_of
from kiqbridge.flow import limiter


@pytest.fixture
def full(client):
    """A limiter without room."""
    erp = limiter.concurrent("erp", 1, client=client, wait_timeout_s=LONG_S)
    with erp.within_limit():
        yield erp


def enter(limit):
    with limit.within_limit():
        pass


def test_a_job_that_waits_or_does_nothing_but_enter_is_ended_and_holds_no_lock(client, redis, full):
    is_ended(lambda: enter(full))
    is_ended(lambda: again_and_again(lambda: enter(limiter.concurrent("free", 3, client=client))))

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
