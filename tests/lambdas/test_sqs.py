"""Messages of SQS: each is enqueued once, and only those that failed are delivered again."""

import json

import pytest
from support.enqueue_function import read_event

from kiqbridge import RedisUnavailable

ARN = "arn:aws:sqs:eu-west-1:123456789012:jobs"
FIFO = f"{ARN}.fifo"


def batch(*bodies, arn=ARN, groups=None):
    """An event with a message for each body; a text is sent as it is."""
    [message] = read_event("sqs_records")["Records"]
    return {
        "Records": [
            message
            | {"messageId": f"m{index}", "eventSourceARN": arn}
            | {"body": body if isinstance(body, str) else json.dumps(body)}
            | ({"attributes": {"MessageGroupId": groups[index]}} if groups else {})
            for index, body in enumerate(bodies)
        ]
    }


def job(number, **more):
    return {"class": "HealthPulse", "args": [number], **more}


def failures(answer):
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def numbers(redis, queue="default"):
    """Arguments in the order in which they were pushed."""
    return [json.loads(text)["args"][0] for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


def test_each_message_is_a_job_in_their_order(invoke, redis):
    assert failures(invoke(batch(job(1), job(2), job(3)))) == []

    assert numbers(redis) == [1, 2, 3]


def test_a_repeated_delivery_enqueues_nothing_and_is_a_success(invoke, redis):
    invoke(batch(job(1), job(2)))

    assert failures(invoke(batch(job(1), job(2), job(3)))) == []

    assert numbers(redis) == [1, 2, 3]


def test_the_same_id_in_another_queue_is_another_message(invoke, redis):
    invoke(batch(job(1)))

    invoke(batch(job(2), arn=f"{ARN}-other"))

    assert numbers(redis) == [1, 2]


def test_several_jobs_of_a_message_are_all_or_none(invoke, redis):
    answer = invoke(
        batch({"jobs": [job(1), job(2)]}, {"jobs": [job(3), {"class": "Kernel", "args": []}]})
    )

    assert failures(answer) == ["m1"]
    assert numbers(redis) == [1, 2]


@pytest.mark.parametrize(
    "bad", ["no json", "[]", {"class": "Kernel", "args": []}, {"class": "HealthPulse"}]
)
def test_only_the_messages_that_failed_are_delivered_again(invoke, redis, bad):
    assert failures(invoke(batch(job(1), bad, job(3)))) == ["m1"]

    assert numbers(redis) == [1, 3]


def test_a_fifo_queue_holds_back_what_follows_a_failure_in_its_group(invoke, redis):
    event = batch(job(1), "no json", job(3), job(4), arn=FIFO, groups=["a", "b", "b", "a"])

    assert failures(invoke(event)) == ["m1", "m2"]

    assert numbers(redis) == [1, 4]


def test_a_job_that_redis_refuses_fails_alone(invoke, redis):
    redis.set("queue:low", "of another type")

    assert failures(invoke(batch(job(1), job(2, queue="low"), job(3)))) == ["m1"]

    assert numbers(redis) == [1, 3]


def test_a_fifo_group_waits_behind_a_job_that_redis_refuses(invoke, redis):
    redis.set("queue:low", "of another type")
    event = batch(
        job(1), job(2, queue="low"), job(3), job(4), arn=FIFO, groups=["a", "b", "b", "c"]
    )

    assert failures(invoke(event)) == ["m1", "m2"]

    assert numbers(redis) == [1, 4]


def test_a_batch_costs_one_round_trip(invoke, redis):
    invoke(batch(job(0)))
    redis.config_resetstat()

    invoke(batch(*(job(number) for number in range(10)), arn=f"{ARN}-other"))

    stats = redis.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 1
    assert stats["cmdstat_lpush"]["calls"] == 10
    assert "cmdstat_ping" not in stats


def test_without_redis_all_are_delivered_again(load, environment):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    answer = load().lambda_handler(batch(job(1), job(2)), None)

    assert failures(answer) == ["m0", "m1"]


def test_a_direct_invocation_without_redis_is_an_error(load, environment):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    with pytest.raises(RedisUnavailable):
        load().lambda_handler(job(1), None)
