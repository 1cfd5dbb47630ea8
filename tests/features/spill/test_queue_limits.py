"""Queues at their limit whose jobs wait in the spill queue (the other limits: tests/kernel/lambdas/test_depth.py)."""

import pytest
from support.enqueue_function import Context
from support.sqs import Queue, simulated_sqs

from kiqbridge.errors import QueueTooDeep
from kiqbridge.wire.json_text import loads


@pytest.fixture
def spill(monkeypatch, environment):
    with simulated_sqs(monkeypatch):
        queue = Queue("spill")
        environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
        yield queue


@pytest.fixture
def start(load, environment, redis):
    redis.rpush("queue:low", *range(3))

    def start(limits):
        environment.setenv("KIQBRIDGE_QUEUE_LIMITS", limits)
        app = load()
        return lambda event: app.lambda_handler(event, Context())

    return start


def job(number, queue="low"):
    return {"class": "HealthPulse", "args": [number], "queue": queue}


def test_a_job_waits_in_the_spill_queue_until_there_is_room(start, redis, spill):
    invoke = start("low=3:spill")
    [accepted] = invoke(job(1))["spilled"]

    assert spill.deliver(invoke) == 0
    redis.ltrim("queue:low", 1, -1)
    assert spill.deliver(invoke) == 1

    assert loads(redis.lindex("queue:low", 0))["jid"] == accepted["jid"]


def test_a_record_that_must_be_rejected_too_is_rejected(start, redis, spill):
    redis.rpush("queue:default", "x")

    with pytest.raises(QueueTooDeep):
        start("low=3:spill,default=1:reject")({"jobs": [job(1), job(2, queue="default")]})

    assert spill.size() == 0
