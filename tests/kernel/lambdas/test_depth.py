"""Queues that are at their limit: what is refused, put off, or sent to the spill queue."""

from datetime import UTC, datetime, timedelta

import pytest
from support.enqueue_function import Context, failures, messages
from support.sqs import arn_of

from kiqbridge import ConfigError
from kiqbridge.errors import QueueTooDeep
from kiqbridge.wire.json_text import loads

FIFO = {"arn": arn_of("orders.fifo"), "groups": "a" * 10}
LIMITS = "KIQBRIDGE_QUEUE_LIMITS"


@pytest.fixture
def start(load, environment, redis):
    redis.rpush("queue:low", *range(3))

    def start(limits):
        environment.setenv(LIMITS, limits)
        app = load()
        return lambda event: app.lambda_handler(event, Context())

    return start


@pytest.fixture
def recent():
    """Three minutes ago."""
    return f"{datetime.now(UTC) - timedelta(minutes=3):%FT%H:%M:00Z}"


def job(number, **more):
    return {"class": "HealthPulse", "args": [number], "queue": "low", **more}


def in_low(redis):
    return redis.llen("queue:low") - 3


@pytest.mark.parametrize("limits", ["low=3:reject", "l*=1:reject", "low=0:reject,low=9:reject"])
def test_a_queue_at_its_limit_rejects(start, redis, limits):
    invoke = start(limits)

    with pytest.raises(QueueTooDeep, match=r"low \(3 jobs\)"):
        invoke(job(1))
    assert invoke(job(1, queue="default"))["enqueued"]

    assert in_low(redis) == 0


def test_of_a_batch_only_the_records_of_the_full_queue_fail(start, redis):
    event = messages(job(1), job(2, queue="default"), {"jobs": [job(3, queue="default"), job(4)]})

    assert failures(start("low=3:reject")(event)) == ["m0", "m2"]

    assert [loads(text)["args"] for text in redis.lrange("queue:default", 0, -1)] == [[2]]
    assert in_low(redis) == 0


def test_what_follows_in_a_fifo_group_waits(start, redis):
    event = messages(job(1, queue="default"), job(2), job(3, queue="default"), **FIFO)

    assert failures(start("low=3:reject")(event)) == ["m1", "m2"]

    assert redis.llen("queue:default") == 1


def test_a_known_message_of_a_full_queue_is_a_success(start, redis):
    event = messages(job(1), job(2))
    start("low=100:reject")(event)

    assert failures(start("low=3:reject")(event)) == []


def test_a_job_is_put_off(start, redis):
    answer = start("low=3:delay:600")({"jobs": [job(1), job(2, queue="default")]})

    low, default = answer["enqueued"]
    assert "at" not in default
    [(text, score)] = redis.zrange("schedule", 0, -1, withscores=True)
    assert (loads(text)["queue"], score) == ("low", low["at"])
    assert in_low(redis) == 0


def test_a_batch_is_put_off_where_it_has_to_be(start, redis):
    event = messages(job(1), job(2, queue="default"), job(3))

    assert failures(start("low=3:delay:600")(event)) == []

    assert (redis.zcard("schedule"), redis.llen("queue:default")) == (2, 1)


def test_a_tick_is_put_off_and_claimed(start, redis, recent):
    tick = {"jobs": [job(1), job(2, queue="default")], "tick": {"schedule": "s/N", "at": recent}}
    invoke = start("low=3:delay:600")

    assert len(invoke(tick)["enqueued"]) == 2
    assert len(invoke(tick)["duplicates"]) == 2

    assert (redis.zcard("schedule"), redis.llen("queue:default")) == (1, 1)


def test_a_tick_is_rejected_and_enqueued_when_there_is_room(start, redis, recent):
    tick = {**job(1), "tick": {"schedule": "s/N", "at": recent}}

    with pytest.raises(QueueTooDeep):
        start("low=3:reject")(tick)

    assert start("low=4:reject")(tick)["enqueued"]


def test_a_queue_at_its_limit_costs_one_round_trip_more_and_any_other_none(start, redis):
    invoke = start("low=4:delay:600,default=9:reject")
    invoke(job(0, queue="default"))
    redis.config_resetstat()

    invoke(messages(*(job(number) for number in range(1))))
    assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    assert failures(invoke(messages(*(job(number) for number in range(9, 19)), **FIFO))) == []

    assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 3
    assert redis.zcard("schedule") == 10


def test_spill_needs_a_queue(start):
    with pytest.raises(ConfigError, match="KIQBRIDGE_SPILL_QUEUE_URL is not set"):
        start("low=3:spill")(job(1))
