"""Streams of Kinesis: data in Base64 is a job or is mapped. What follows a failure: test_dynamodb.py."""

import base64
import json

import pytest
from support.enqueue_function import arguments, failures, job, read_event
from support.sources import recorded, records_of

from kiqbridge import EventError

TAKE_ALL = """
mappings:
  - match: {stream: jobs}
    class: HealthPulse
    args: [kinesis.data]
"""


def stream(*values, **changes):
    """Records whose data are these values; bytes go as they are."""
    [record, *_] = read_event("kinesis_jobs")["Records"]
    made = []
    for index, value in enumerate(values):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        kinesis = record["kinesis"] | {
            "data": base64.b64encode(data).decode(),
            "sequenceNumber": f"100{index}",
        }
        made.append(record | {"kinesis": kinesis, "eventID": f"shardId-000000000006:100{index}"})
    return {"Records": made, **changes}


def test_jobs_of_a_stream_are_enqueued_once_and_in_their_order(invoke, redis):
    event = read_event("kinesis_jobs")

    assert invoke(event) == invoke(event) == {"batchItemFailures": []}

    assert arguments(redis) == [[1], [2], [3]]


def test_the_same_sequence_number_in_another_shard_or_stream_is_another_record(invoke, redis):
    event = stream(job(1))
    [record] = event["Records"]

    invoke(event)
    invoke({"Records": [record | {"eventID": "shardId-000000000007:1000"}]})
    invoke({"Records": [record | {"eventSourceARN": record["eventSourceARN"] + "-other"}]})

    assert len(arguments(redis)) == 3


def test_a_pipe_sends_the_same_record_without_its_inner_object(invoke, redis):
    piped = recorded("pipe_kinesis")

    assert invoke(piped) == invoke(piped) == {"batchItemFailures": []}

    assert arguments(redis) == [[1]]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"number": 2**70}, {"number": 2**70}),
        (b"plain text", "plain text"),
        (b"\xff\xfe", "//4="),
    ],
    ids=["json", "text", "bytes"],
)
def test_a_mapping_sees_json_else_a_text_else_base64(mapped, redis, data, seen):
    assert failures(mapped(TAKE_ALL)(stream(data))) == []

    assert arguments(redis) == [[seen]]


def test_stream_and_partition_key_find_a_mapping():
    [record] = records_of(stream(job(1)))

    assert record.facets == {"stream": "jobs", "partition-key": "customer-7", "region": "eu-west-1"}


def test_what_the_producer_library_aggregated_is_refused_with_what_to_do(invoke, redis, capsys):
    event = read_event("kinesis_aggregated")

    with pytest.raises(EventError, match="AggregationEnabled"):
        invoke(event)

    assert "set its AggregationEnabled to false" in capsys.readouterr().out
    assert redis.dbsize() == 0


def test_logs_in_a_stream_are_unpacked(mapped, redis):
    invoke = mapped(
        "mappings: [{match: {log-group: /aws/lambda/*, inner: logs}, class: HealthPulse,"
        " args: ['logEvents[].message']}]"
    )

    assert failures(invoke(read_event("kinesis_logs"))) == []
    assert failures(invoke(read_event("kinesis_logs"))) == []

    assert arguments(redis) == [[["[ERROR] 1", "[ERROR] 2"]]]


def test_bytes_that_begin_like_gzip_and_are_none_fail_alone():
    broken, whole = records_of(stream(b"\x1f\x8bnot gzip", job(2)))

    assert str(broken.error).startswith("Records[0].kinesis.data: is not gzip")
    assert whole.error is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"eventID": None}, "Records[0].eventID: None is not a text"),
        ({"eventSourceARN": ""}, "Records[0].eventSourceARN: '' is not a text"),
        ({"kinesis": 5}, "Records[0].kinesis.sequenceNumber: None is not a text"),
        ({"kinesis": {"sequenceNumber": "1"}}, "Records[0].kinesis.data: None is not a text"),
        (
            {"kinesis": {"sequenceNumber": "1", "data": "%%"}},
            "Records[0].kinesis.data: '%%' is not Base64",
        ),
    ],
    ids=str,
)
def test_a_record_that_lacks_something_is_refused_alone(changes, reason):
    event = stream(job(1), job(2))
    event["Records"][0] |= changes

    broken, whole = records_of(event)

    assert str(broken.error).startswith(reason)
    assert whole.error is None
