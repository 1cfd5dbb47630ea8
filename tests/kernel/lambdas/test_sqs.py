"""Messages of SQS: each is enqueued once, and only those that failed are delivered again."""

import pytest
from support.enqueue_function import QUEUE, Context, failures, job, messages, numbers, read_event
from support.sources import records_of

from kiqbridge.errors import EventError, RedisUnavailable

FIFO = f"{QUEUE}.fifo"


def test_a_repeated_delivery_enqueues_nothing_and_is_a_success(invoke, redis):
    invoke(messages(job(1), job(2)))

    assert failures(invoke(messages(job(1), job(2), job(3)))) == []

    assert numbers(redis) == [1, 2, 3]


def test_the_same_id_in_another_queue_is_another_message(invoke, redis):
    invoke(messages(job(1)))

    invoke(messages(job(2), arn=f"{QUEUE}-other"))

    assert numbers(redis) == [1, 2]


def test_several_jobs_of_a_message_are_all_or_none(invoke, redis):
    answer = invoke(
        messages({"jobs": [job(1), job(2)]}, {"jobs": [job(3), {"class": "Kernel", "args": []}]})
    )

    assert failures(answer) == ["m1"]
    assert numbers(redis) == [1, 2]


@pytest.mark.parametrize(
    "bad", ["no json", "[]", {"class": "Kernel", "args": []}, {"class": "HealthPulse"}]
)
def test_only_the_messages_that_failed_are_delivered_again(invoke, redis, bad):
    assert failures(invoke(messages(job(1), bad, job(3)))) == ["m1"]

    assert numbers(redis) == [1, 3]


def test_a_fifo_queue_holds_back_what_follows_a_failure_in_its_group(invoke, redis):
    event = messages(job(1), "no json", job(3), job(4), arn=FIFO, groups=["a", "b", "b", "a"])

    assert failures(invoke(event)) == ["m1", "m2"]

    assert numbers(redis) == [1, 4]


def test_a_job_that_redis_refuses_fails_alone(invoke, redis):
    redis.set("queue:low", "of another type")

    assert failures(invoke(messages(job(1), job(2, queue="low"), job(3)))) == ["m1"]

    assert numbers(redis) == [1, 3]


def test_a_fifo_group_waits_behind_a_job_that_redis_refuses(invoke, redis):
    redis.set("queue:low", "of another type")
    event = messages(
        job(1), job(2, queue="low"), job(3), job(4), arn=FIFO, groups=["a", "b", "b", "c"]
    )

    assert failures(invoke(event)) == ["m1", "m2"]

    assert numbers(redis) == [1, 4]


def test_a_batch_costs_one_round_trip(invoke, redis):
    invoke(messages(job(0)))
    redis.config_resetstat()

    invoke(messages(*(job(number) for number in range(10)), arn=f"{QUEUE}-other"))

    stats = redis.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 1
    assert stats["cmdstat_lpush"]["calls"] == 1
    assert redis.llen("queue:default") == 11
    assert "cmdstat_ping" not in stats


def test_a_batch_of_more_than_a_thousand_jobs_is_pushed_in_parts(invoke, redis):
    """SQS delivers up to 10,000 messages; a group waits behind its failure in an earlier part as well."""
    redis.set("queue:low", "of another type")
    groups = ["a"] * 1000 + ["b"] + ["c"] * 999 + ["b"]
    bodies = [job(number) for number in range(2001)]
    bodies[1000] = job(1000, queue="low")
    invoke(messages(job(0)))
    redis.config_resetstat()

    answer = invoke(messages(*bodies, arn=FIFO, groups=groups))

    assert failures(answer) == ["m1000", "m2000"]
    assert numbers(redis)[1:] == [*range(1000), *range(1001, 2000)]
    # Two parts, and those of the second one by one, because of the job that is refused.
    assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1 + 1 + 1000


def test_without_redis_all_are_delivered_again(load, environment):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    with pytest.raises(RedisUnavailable):
        load().lambda_handler(messages(job(1), job(2)), Context())


def test_a_batch_of_which_some_failed_warns_once_of_the_setting_that_delivers_them_again(
    invoke, redis, capsys
):
    half = messages(job(1), "no job")

    assert failures(invoke(half)) == failures(invoke(half)) == ["m1"]

    assert (
        capsys.readouterr().out.count("set FunctionResponseTypes: [ReportBatchItemFailures]") == 1
    )


def test_a_batch_of_which_all_failed_raises_so_that_no_default_loses_it(invoke):
    with pytest.raises(EventError, match=r"Records\[0\]"):
        invoke(messages("no job", "none either"))


# Identity and facets


def test_a_message_in_the_dead_letter_queue_is_the_one_that_was_in_the_queue(invoke, redis):
    """SQS keeps its id when it moves it; a function may read both queues."""
    message = read_event("sqs_records")
    moved = read_event("sqs_dead_letter")
    assert moved["Records"][0]["messageId"] == message["Records"][0]["messageId"]

    invoke(message)
    invoke(moved)

    assert redis.llen("queue:default") == 1


def test_a_message_that_was_redriven_is_a_new_one_without_a_dedupe_key(invoke, redis):
    """SQS documents that redriven messages get a new id and a new time of arrival."""
    for name, number in (("before", 1), ("after", 1)):
        event = messages(job(number), job(2, dedupe_key="order-2"))
        for message in event["Records"]:
            message["messageId"] += name
        invoke(event)

    assert numbers(redis) == [1, 2, 1]


def test_a_deduplication_id_is_no_identity(invoke, redis):
    """SQS forgets it after five minutes: the same content next week is a message of its own."""
    event = read_event("sqs_fifo")
    first, second = event["Records"]
    attributes = second["attributes"] | {
        "MessageDeduplicationId": first["attributes"]["MessageDeduplicationId"]
    }

    invoke({"Records": [first, second | {"attributes": attributes}]})

    assert numbers(redis) == [1, 2]


def test_queue_group_and_attributes_of_a_message_find_a_mapping():
    [raw] = records_of(read_event("sqs_sns_raw"))
    first, _ = records_of(read_event("sqs_fifo"))

    assert raw.facets == {"queue": QUEUE, "attribute.tenant": "acme"}
    assert first.facets == {"queue": FIFO, "group": "customer-7"}
    assert first.group == "customer-7"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"messageId": None}, "Records[0].messageId: None is not a text"),
        ({"messageId": "\ud800"}, "Records[0].messageId: '\\ud800' holds a lone surrogate"),
        ({"eventSourceARN": 5}, "Records[0].eventSourceARN: 5 is not a text"),
        ({"body": None}, "Records[0].body: None is not the text of a message"),
        ({"body": {}}, "Records[0].body: {} is not the text of a message"),
        (
            {"eventSource": "aws:s3"},
            "Records[0].eventSource: 'aws:s3' stands among records of aws:",
        ),
    ],
    ids=str,
)
def test_a_message_that_lacks_something_is_refused_alone(changes, reason):
    event = messages(job(1), job(2))
    event["Records"].insert(0, event["Records"].pop() | changes)
    if "eventSource" in changes:
        event["Records"].reverse()
        reason = reason.replace("[0]", "[1]")

    broken = [record for record in records_of(event) if record.error]

    assert [reason in str(record.error) for record in broken] == [True]


def test_at_a_message_without_an_id_the_whole_batch_is_delivered_again(invoke, redis):
    event = messages(job(1), job(2))
    del event["Records"][1]["messageId"]

    assert failures(invoke(event)) == [""]


@pytest.mark.parametrize("attributes", [None, 5, {}, {"MessageGroupId": 5}])
def test_odd_attributes_of_a_message_are_as_none(attributes):
    event = messages(job(1), arn=FIFO)
    event["Records"][0] |= {"attributes": attributes, "messageAttributes": {"a": 5}}

    [record] = records_of(event)

    assert (record.error, record.group) == (None, None)


def test_a_fifo_queue_keeps_its_order_also_behind_a_message_that_cannot_be_read(invoke, redis):
    event = messages(job(1), job(2), job(3), arn=FIFO, groups=["a", "a", "b"])
    del event["Records"][0]["eventSourceARN"]

    assert failures(invoke(event)) == ["m0", "m1"]

    assert numbers(redis) == [3]


def test_a_batch_of_ten_thousand_messages_is_enqueued(invoke, redis):
    """The largest that an event source mapping of a standard queue delivers; one of them is refused alone."""
    event = messages(*map(job, range(9_999)), {"class": "Kernel", "args": []})

    assert failures(invoke(event)) == ["m9999"]

    assert sorted(numbers(redis)) == list(range(9_999))
