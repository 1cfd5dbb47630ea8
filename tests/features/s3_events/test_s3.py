"""Notifications of S3: keys are unquoted, and a change of an object is enqueued once."""

import json

import pytest
from support.enqueue_function import read_event
from support.sources import records_of

from kiqbridge import EventError

BY_PREFIX = """
mappings:
  - match: {bucket: shop-uploads, prefix: "orders 2026/", suffix: .csv}
    class: HealthPulse
    args: [s3.bucket.name, s3.object.key, s3.object.size]
"""
TAKE_ALL = """
mappings:
  - match: {source: [s3, bus]}
    class: HealthPulse
    args: []
"""


def changed(event, **changes):
    event["Records"][0]["s3"]["object"] |= changes
    return event


def test_a_key_is_unquoted_for_mappings_and_for_their_prefixes(mapped, redis):
    assert mapped(BY_PREFIX)(read_event("s3_put"))["enqueued"]

    [text] = redis.lrange("queue:default", 0, -1)
    assert json.loads(text)["args"] == ["shop-uploads", "orders 2026/café +1.csv", 1024]


def test_a_change_is_enqueued_once_however_often_it_is_notified(mapped, redis):
    """AWS documents that duplicate notifications have the same sequencer."""
    invoke = mapped(TAKE_ALL)
    again = read_event("s3_put")
    again["Records"][0]["responseElements"]["x-amz-request-id"] = "another"

    first, second = invoke(read_event("s3_put")), invoke(again)

    assert second["duplicates"] == first["enqueued"]


@pytest.mark.parametrize(
    "other",
    [
        changed(read_event("s3_put"), sequencer="00617F08299329D18A"),
        changed(read_event("s3_put"), key="other.csv"),
        read_event("s3_removed"),
        read_event("s3_restored"),
    ],
    ids=["later", "key", "removed", "restored"],
)
def test_another_change_is_another_job(mapped, redis, other):
    invoke = mapped(TAKE_ALL)
    invoke(read_event("s3_put"))

    invoke(other)
    invoke(other)

    assert redis.llen("queue:default") == 2


def test_a_deletion_is_the_same_directly_and_through_a_bus(mapped, redis):
    invoke = mapped(TAKE_ALL)

    invoke(read_event("s3_removed"))
    invoke(read_event("bus_s3_deleted"))

    assert redis.llen("queue:default") == 1


def test_a_deletion_with_the_sequencer_of_a_creation_is_another_event(mapped, redis):
    invoke = mapped(TAKE_ALL)
    event = read_event("s3_removed")

    invoke(event)
    event["Records"][0]["eventName"] = "ObjectCreated:Put"
    invoke(event)

    assert redis.llen("queue:default") == 2


def test_a_replay_of_a_bus_enqueues_an_object_once_more(mapped, redis):
    invoke = mapped(TAKE_ALL)
    event = read_event("s3_object_created")
    replayed = event | {"replay-name": "friday"}

    for each in (event, replayed, replayed, event):
        invoke(each)

    assert redis.llen("queue:default") == 2


@pytest.mark.parametrize(
    "detail",
    [{}, {"bucket": 5, "object": 7}, {"bucket": {"name": "b"}, "object": {"key": "k"}}],
    ids=str,
)
def test_an_event_of_a_bus_without_a_sequencer_goes_by_its_id(detail):
    [record] = records_of(read_event("s3_object_created", detail=detail))

    assert record.identity.source == "event"


def test_bucket_key_and_event_find_a_mapping():
    [record] = records_of(read_event("s3_put"))

    assert (record.source, record.origin) == ("s3", "s3:shop-uploads")
    assert record.facets == {
        "bucket": "shop-uploads",
        "key": "orders 2026/café +1.csv",
        "event": "ObjectCreated:Put",
        "region": "eu-west-1",
    }


def test_of_several_changes_all_or_none_are_enqueued(mapped, redis):
    good, bad = (read_event(name)["Records"][0] for name in ("s3_put", "s3_removed"))
    del bad["s3"]["object"]

    with pytest.raises(EventError, match=r"^Records\[1\]\.s3\.object: None is not an object$"):
        mapped(TAKE_ALL)({"Records": [good, bad]})

    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (("eventName",), "Records[0].eventName: None is not a text"),
        (("s3",), "Records[0].s3: None is not an object"),
        (("s3", "bucket", "name"), "Records[0].s3.bucket.name: None is not a text"),
        (("s3", "object", "key"), "Records[0].s3.object.key: None is not a text"),
        (("responseElements", "x-amz-request-id"), "x-amz-request-id: None is not a text"),
    ],
    ids=str,
)
def test_a_change_that_lacks_something_is_refused(invoke, redis, path, reason):
    event = read_event("s3_restored")
    place = event["Records"][0]
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]

    with pytest.raises(EventError) as raised:
        invoke(event)

    assert reason in str(raised.value)


def test_a_notification_that_no_mapping_takes_is_refused_with_one_to_write(invoke):
    with pytest.raises(EventError) as raised:
        invoke(read_event("s3_removed"))

    assert str(raised.value) == (
        "Records[0]: an event of s3 holds no job by itself, and no mapping takes it (source: 's3', "
        "origin: 's3:shop-uploads', bucket: 'shop-uploads', key: 'orders.csv', event: "
        "'ObjectRemoved:DeleteMarkerCreated', region: 'eu-west-1'); write into mappings.yml: mappings: "
        "[{match: {source: 's3', origin: 's3:shop-uploads'}, class: NAME, args: [EXPRESSION]}]"
    )
