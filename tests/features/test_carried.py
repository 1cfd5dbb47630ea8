"""An event that one service sends through another is the same event, by whatever way it comes."""

import json

import pytest
from support.enqueue_function import arguments, read_event
from support.sources import records_of

from kiqbridge.errors import EventError

TAKE_ALL = """
mappings:
  - match: {source: "*"}
    class: HealthPulse
    args: [to_string(@)]
"""
ARN = "arn:aws:sqs:eu-west-1:123456789012:jobs"


def in_queue(body, message_id="m1", **attributes):
    [message] = read_event("sqs_records")["Records"]
    body = body if isinstance(body, str) else json.dumps(body)
    message |= {"messageId": message_id, "body": body}
    return {"Records": [message | {"attributes": message["attributes"] | attributes}]}


def in_topic(message):
    event = read_event("sns_job")
    event["Records"][0]["Sns"]["Message"] = (
        message if isinstance(message, str) else json.dumps(message)
    )
    return event


OBJECT = json.loads(read_event("sqs_s3_one")["Records"][0]["body"])
"""A notification of S3 about the object of `s3_object_created`."""

SAME_OBJECT = {
    "S3": OBJECT,
    "S3 → SNS": in_topic(OBJECT),
    "S3 → SQS": in_queue(OBJECT),
    "S3 → SNS → SQS": read_event("sqs_sns_s3"),
    "EventBridge": read_event("s3_object_created"),
    "EventBridge → SQS": in_queue(read_event("s3_object_created"), "m2"),
    "EventBridge → SNS": in_topic(read_event("s3_object_created")),
    "another event of EventBridge": read_event("s3_object_created", id="other"),
}


@pytest.mark.parametrize("first", SAME_OBJECT)
def test_an_object_is_enqueued_once_by_all_ways(mapped, redis, first):
    invoke = mapped(TAKE_ALL)

    for way in (first, *SAME_OBJECT):
        invoke(SAME_OBJECT[way])

    assert redis.llen("queue:default") == 1


@pytest.mark.parametrize(
    "ways",
    [
        ("sns_job", "sqs_sns"),
        ("bus_event", "sqs_bus", "sns_bus"),
        ("destination_success", "sqs_destination", "bus_destination"),
    ],
    ids=str,
)
def test_a_job_is_enqueued_once_by_all_ways(invoke, redis, ways):
    for way in (*ways, *ways):
        invoke(read_event(way))

    assert redis.llen("queue:default") == 1


def test_a_message_that_a_topic_delivers_raw_goes_by_the_queues_message(invoke, redis):
    invoke(read_event("sns_job"))

    invoke(read_event("sqs_sns_raw"))
    invoke(read_event("sqs_sns_raw"))

    assert redis.llen("queue:default") == 2


def test_the_carrier_is_the_source_and_the_origin_whatever_it_carries():
    """A message can be forged by who may send one: it gets the rights of its queue."""
    for way in ("S3 → SQS", "S3 → SNS → SQS", "EventBridge → SQS"):
        [record] = records_of(SAME_OBJECT[way])

        assert (record.source, record.origin) == ("sqs", ARN)
        assert record.facets["bucket"] == "shop-uploads"
        assert record.facets["queue"] == ARN


def test_the_facets_of_all_services_on_the_way_find_a_mapping():
    [record] = records_of(read_event("sqs_sns_s3"))

    assert record.facets == {
        "bucket": "shop-uploads",
        "key": "orders.csv",
        "event": "ObjectCreated:Put",
        "region": "eu-west-1",
        "topic": "arn:aws:sns:eu-west-1:123456789012:orders",
        "queue": ARN,
        "inner": "s3",
    }


def test_a_mapping_sees_the_inner_event_as_it_looks_when_it_comes_directly():
    [direct], [carried] = records_of(OBJECT), records_of(in_queue(OBJECT))

    assert carried.event == direct.event


def test_of_a_message_with_three_objects_all_or_none_are_enqueued(mapped, redis):
    invoke = mapped(
        """
mappings:
  - match: {bucket: shop-uploads, key: in/3.csv}
    class: Kernel
    args: [s3.object.key]
  - match: {bucket: shop-uploads}
    class: HealthPulse
    args: [s3.object.key]
"""
    )
    with pytest.raises(EventError, match="Kernel"):
        invoke(read_event("sqs_s3"))
    assert redis.dbsize() == 0


def test_three_objects_of_a_message_are_three_jobs_and_each_is_remembered(mapped, redis):
    invoke = mapped(TAKE_ALL.replace("to_string(@)", "s3.object.key"))
    three = json.loads(read_event("sqs_s3")["Records"][0]["body"])

    assert invoke(read_event("sqs_s3")) == {"batchItemFailures": []}
    assert redis.llen("queue:default") == 3
    for event in (read_event("sqs_s3"), *({"Records": [record]} for record in three["Records"])):
        invoke(event)

    assert arguments(redis) == [["in/1.csv"], ["in/2.csv"], ["in/3.csv"]]


def test_of_a_message_with_a_record_that_cannot_be_read_nothing_is_enqueued(mapped, redis):
    body = json.loads(read_event("sqs_s3")["Records"][0]["body"])
    del body["Records"][1]["s3"]["bucket"]

    with pytest.raises(EventError):
        mapped(TAKE_ALL)(in_queue(body))

    assert redis.dbsize() == 0


@pytest.mark.parametrize("name", ["sqs_s3_test", "sqs_autoscaling_test"])
def test_a_test_event_in_a_queue_is_a_success(invoke, redis, name):
    assert invoke(read_event(name)) == {"batchItemFailures": []}

    assert redis.dbsize() == 0


def test_a_test_event_of_a_topic_is_a_success(invoke, redis):
    assert invoke(read_event("sns_s3_test"))["enqueued"] == []

    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"Type": "Notification", "TopicArn": "t", "Message": "{}"},
            "body.MessageId: None is not a",
        ),
        (
            {"Type": "Notification", "TopicArn": 5, "MessageId": "m", "Message": ""},
            "TopicArn: 5 is",
        ),
        ({"requestContext": {}, "requestPayload": {}}, "requestContext.functionArn: None is not a"),
        ({"requestContext": 5, "requestPayload": {}}, "body.requestContext: 5 is not an object"),
        (
            OBJECT | {"Records": [OBJECT["Records"][0] | {"s3": 5}]},
            "Records[0].s3: 5 is not an obj",
        ),
    ],
    ids=str,
)
def test_a_carried_event_that_lacks_something_is_refused_alone(body, reason):
    event = {"Records": [*in_queue(body)["Records"], *read_event("sqs_records")["Records"]]}

    broken, whole = records_of(event)

    assert isinstance(broken.error, EventError)
    assert reason in str(broken.error)
    assert (broken.item, whole.error) == ("m1", None)


@pytest.mark.parametrize(
    "body",
    [
        {"detail-type": "mine", "detail": {"class": "HealthPulse", "args": []}},
        {"Records": [{"eventSource": "mine"}]},
        {"Records": 5},
        {"Event": ["s3:TestEvent"]},
        {"Type": "Notification"},
    ],
    ids=str,
)
def test_what_only_looks_a_little_like_an_event_is_left_to_the_mappings(mapped, redis, body):
    assert mapped(TAKE_ALL)(in_queue(body)) == {"batchItemFailures": []}

    assert redis.llen("queue:default") == 1


def test_an_envelope_within_an_envelope_is_left_to_the_mappings():
    [inner] = read_event("sns_job")["Records"]

    [record] = records_of(in_topic(inner["Sns"]))

    assert record.event["Message"]["Type"] == "Notification"
    assert "inner" not in record.facets
