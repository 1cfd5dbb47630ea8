"""Streams of DynamoDB: plain values for mappings, an outbox without one, and a checkpoint as the answer."""

import json

import pytest
from support.enqueue_function import arguments, failures, read_event
from support.sources import records_of

from kiqbridge import EventError
from kiqbridge.features.streams.attribute_value import plain

CHANGES = """
mappings:
  - match: {table: outbox, event: [MODIFY, REMOVE]}
    class: HealthPulse
    args: [eventName, dynamodb.Keys.id, 'dynamodb.NewImage || `"gone"`']
"""


def outbox(*numbers, **changes):
    """Items that are jobs, each with a number as its argument."""
    [record, _] = read_event("dynamodb_outbox")["Records"]
    made = []
    for number in numbers:
        copy = json.loads(json.dumps(record)) | {"eventID": f"e{number}"}
        copy["dynamodb"] |= {"SequenceNumber": f"100{number}"}
        copy["dynamodb"]["NewImage"]["args"] = {"L": [{"N": str(number)}]}
        made.append(copy)
    return {"Records": made, **changes}


def test_an_inserted_item_that_is_a_job_is_enqueued_once(invoke, redis):
    event = read_event("dynamodb_outbox")

    assert invoke(event) == invoke(event) == {"batchItemFailures": []}

    big, price = 123456789012345678901234567890, {"price": 0.1, "paid": True, "note": None}
    assert arguments(redis) == [[1, big, price], [2, big, price]]


@pytest.mark.parametrize("name", ["MODIFY", "REMOVE"])
def test_a_changed_item_is_no_job_by_itself(invoke, redis, name):
    event = outbox(1)
    event["Records"][0]["eventName"] = name

    with pytest.raises(EventError):
        invoke(event)
    assert redis.dbsize() == 0


def test_an_attribute_class_makes_no_job_of_an_item():
    event = outbox(1)
    del event["Records"][0]["dynamodb"]["NewImage"]["args"]

    [record] = records_of(event)

    assert record.job is None


def test_a_mapping_sees_plain_values(mapped, redis):
    invoke = mapped(CHANGES)

    assert invoke(read_event("dynamodb_change")) == {"batchItemFailures": []}
    assert invoke(read_event("dynamodb_expired")) == {"batchItemFailures": []}

    item = {"id": "o-3", "class": "gold", "tags": ["a", "b"], "sums": [1, 2.5], "blob": "AAEC"}
    assert arguments(redis) == [["MODIFY", "o-3", item], ["REMOVE", "o-4", "gone"]]


def test_table_event_and_principal_find_a_mapping():
    [record] = records_of(read_event("dynamodb_expired"))

    assert record.source == "dynamodb"
    assert record.origin.endswith(":table/outbox/stream/2026-11-20T00:00:00.000")
    assert record.facets == {
        "event": "REMOVE",
        "table": "outbox",
        "region": "eu-west-1",
        "principal": "dynamodb.amazonaws.com",
    }


def test_what_redis_refuses_is_a_checkpoint_too(invoke, redis):
    redis.set("queue:low", "of another type")
    event = outbox(1, 2, 3)
    event["Records"][1]["dynamodb"]["NewImage"]["queue"] = {"S": "low"}

    assert failures(invoke(event)) == ["1002"]

    assert arguments(redis) == [[1]]


def test_nothing_is_enqueued_after_the_first_failure_and_the_rest_once_after_it(invoke, redis):
    """Lambda delivers again from the lowest sequence number that is answered."""
    event = outbox(1, 2, 3)
    bad = json.loads(json.dumps(event))
    for record in bad["Records"][1:]:
        record["dynamodb"]["NewImage"]["class"] = {"S": "Kernel"}

    assert failures(invoke(bad)) == ["1002"]
    invoke({"Records": event["Records"][1:]})
    invoke(event)

    assert arguments(redis) == [[1], [2], [3]]


def test_a_tumbling_window_is_refused(invoke, redis):
    window = {"start": "2026-11-20T02:00:00Z", "end": "2026-11-20T02:05:00Z"}

    with pytest.raises(EventError, match="TumblingWindowInSeconds out of the event source mapping"):
        invoke(outbox(1, window=window, state={}))

    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("place", "name", "reason"),
    [
        ((), "eventID", "Records[0].eventID: None is not a text"),
        ((), "eventSourceARN", "Records[0].eventSourceARN: None is not a text"),
        ((), "dynamodb", "Records[0].dynamodb: None is not an object"),
        (("dynamodb",), "SequenceNumber", "Records[0].dynamodb.SequenceNumber: None is not a text"),
        (("dynamodb", "Keys", "id"), "S", "Records[0].dynamodb.Keys.id: {} is not an attribute"),
    ],
    ids=str,
)
def test_a_change_that_lacks_something_is_refused_alone(place, name, reason):
    event = outbox(1, 2)
    found = event["Records"][0]
    for step in place:
        found = found[step]
    del found[name]

    broken, whole = records_of(event)

    assert str(broken.error).startswith(reason)
    assert whole.error is None


# Attribute values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"S": ""}, ""),
        ({"N": "0"}, 0),
        ({"N": "-17"}, -17),
        ({"N": "1E+3"}, 1000),
        ({"N": "99999999999999999999999999999999999999"}, int("9" * 38)),
        ({"N": "9.9999999999999999999999999999999999999E+125"}, int("9" * 38) * 10**88),
        ({"N": "0.1"}, 0.1),
        ({"N": "1.5E-130"}, 1.5e-130),
        (
            {"N": "0.12345678901234567890123456789012345678"},
            "0.12345678901234567890123456789012345678",
        ),
        ({"BOOL": False}, False),
        ({"NULL": True}, None),
        ({"L": [{"N": "1"}, {"L": []}]}, [1, []]),
        ({"M": {"a": {"M": {}}}}, {"a": {}}),
        ({"SS": ["b", "a"]}, ["b", "a"]),
        ({"NS": ["1", "2.5"]}, [1, 2.5]),
        ({"B": "AAEC"}, "AAEC"),
        ({"BS": ["AAEC"]}, ["AAEC"]),
    ],
    ids=str,
)
def test_an_attribute_value_is_a_plain_value_and_loses_no_digit(value, expected):
    found = plain(value, "x")

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (5, "x: 5 is not an attribute value such as"),
        ({}, "x: {} is not an attribute value"),
        ({"S": "a", "N": "1"}, "is not an attribute value"),
        ({"X": "a"}, "x: {'X': 'a'} is of no type of DynamoDB"),
        ({"S": 5}, "x: 5 is not a text"),
        ({"N": 5}, "x: 5 is not a text"),
        ({"N": "five"}, "x: 'five' is not a number"),
        ({"N": "NaN"}, "x: 'NaN' is beyond the numbers of DynamoDB"),
        ({"N": "1E+999999999"}, "x: '1E+999999999' is beyond the numbers"),
        ({"BOOL": "true"}, "x: 'true' is neither true nor false"),
        ({"B": "%"}, "x: '%' is not Base64"),
        ({"L": {}}, "x: {'L': {}} is of no type"),
        ({"L": [{"N": "x"}]}, "x[0]: 'x' is not a number"),
        ({"M": {"a": {"NS": ["x"]}}}, "x.a[0]: 'x' is not a number"),
        (json.loads('{"L": [' * 33 + "]}" * 33), "nested deeper than the 32 levels of DynamoDB"),
        (json.loads('{"M": {"a": ' * 300 + '{"S": ""}' + "}}" * 300), "nested deeper than the 32"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_attribute_value_is_refused(value, reason):
    with pytest.raises(EventError) as raised:
        plain(value, "x")

    assert reason in str(raised.value)
