"""Messages of SNS topics: the message is a job; each is enqueued once."""

import json

import pytest
from support.enqueue_function import Context, read_event
from support.sources import records_of

from kiqbridge import EventError, RedisUnavailable

TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def notified(**changes):
    event = read_event("sns_job")
    event["Records"][0]["Sns"] |= changes
    return event


def test_two_messages_that_say_the_same_are_two_jobs(invoke, redis):
    for identifier in "ab":
        invoke(notified(MessageId=identifier))

    assert redis.llen("queue:default") == 2


def test_topic_subject_and_attributes_find_a_mapping():
    [record] = records_of(notified())

    assert (record.source, record.origin) == ("sns", TOPIC)
    assert record.facets == {
        "topic": TOPIC,
        "subject": "Order placed",
        "attribute.tenant": "acme",
    }


def test_a_message_that_no_mapping_takes_ends_the_invocation_so_that_sns_tries_again(invoke, redis):
    with pytest.raises(EventError, match=r"^Records\[0\].Sns.Message: 'hello' holds no job"):
        invoke(notified(Message="hello"))

    assert redis.dbsize() == 0


def test_without_redis_the_invocation_ends_with_an_error(environment, load):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    with pytest.raises(RedisUnavailable):
        load().lambda_handler(notified(), Context())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"MessageId": ""},
            "Records[0].Sns.MessageId: '' is not a text with at least one character",
        ),
        ({"TopicArn": None}, "Records[0].Sns.TopicArn: None is not a text"),
        ({"Message": {"class": "A"}}, "Records[0].Sns.Message: {'class': 'A'} is not a text"),
    ],
    ids=str,
)
def test_a_message_that_lacks_something_is_refused(invoke, redis, changes, reason):
    with pytest.raises(EventError) as raised:
        invoke(notified(**changes))

    assert reason in str(raised.value)
    assert redis.dbsize() == 0


def test_a_trace_in_the_attributes_goes_with_the_job_on_every_way(invoke, redis):
    attributes = {"traceparent": {"Type": "String", "Value": TRACE}}
    [record] = notified(MessageAttributes=attributes)["Records"]
    [message] = read_event("sqs_records")["Records"]
    wrapped = message | {"body": json.dumps(record["Sns"] | {"MessageId": "other"})}
    traced = message | {
        "messageId": "traced",
        "messageAttributes": {"traceparent": {"stringValue": TRACE, "dataType": "String"}},
        "attributes": {"AWSTraceHeader": "Root=1-5f8d04b5-111111111111111111111111"},
    }

    invoke({"Records": [record]})
    invoke({"Records": [wrapped, traced]})

    jobs = [json.loads(text) for text in redis.lrange("queue:default", 0, -1)]
    assert [job["traceparent"] for job in jobs] == [TRACE] * 3
    assert [job.get("X-Amzn-Trace-Id") for job in jobs] == [
        "Root=1-5f8d04b5-111111111111111111111111",
        None,
        None,
    ]
