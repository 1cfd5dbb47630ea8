"""Streams of DynamoDB tables and of Kinesis: records in an order, and an answer that is a checkpoint.

Lambda delivers again from the lowest sequence number that is answered, whatever came after it; so after
a failure nothing is enqueued, and only that one is answered. The identity of a record is the stream and the
`eventID`, which it keeps at each delivery; of Kinesis it is shard and sequence number.

DynamoDB: each record is a change of an item. Keys and images are plain values for mappings
(`attribute_value`). An item that is inserted and is a job by itself (`class` and `args`, as in a table that
serves as an outbox) needs no mapping.

Kinesis: the data of each record is a job, or is mapped. Data that the Kinesis Producer Library aggregated is
refused: it is many records in one, in a format of its own. What CloudWatch Logs sends through a stream is
unpacked (`logs`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kiqbridge.aws.record import Answering, Delivery, Record, Result, carry
from kiqbridge.aws.sources import family, reading
from kiqbridge.errors import EventError
from kiqbridge.wire import active_job
from kiqbridge.wire.guards import Identity, Source

_AGGREGATED: Final = b"\xf3\x89\x9a\xc2"
"""The Kinesis Producer Library begins what it aggregates with these bytes."""
_GZIP: Final = b"\x1f\x8b"
_IMAGES: Final = ("Keys", "NewImage", "OldImage")


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each one of the shard, in their order.

    Raises:
        EventError: of a tumbling window, which expects a state as its answer.
    """
    source = reading.service_of(event["Records"][0]).removeprefix("aws:")
    read_one, about = (_change, _place) if source == "dynamodb" else (_data, _place_of_kinesis)
    records = reading.records_of(event, source, read_one, about)
    if "window" in event:
        raise EventError(
            "window: a tumbling window expects a state, which this function does not keep; take "
            "TumblingWindowInSeconds out of the event source mapping"
        )
    return Delivery(
        source=source,
        records=records,
        answering=Answering.IN_ORDER,
        answer=checkpoint_answer,
        of_event_source=True,
    )


def checkpoint_answer(results: Sequence[Result]) -> dict[str, list[dict[str, str]]]:
    """The partial batch response: the first record that failed.

    One without a sequence number is named by the empty text, at which Lambda repeats the whole batch.
    """
    failed = [result.record.item or "" for result in results if result.error][:1]
    return {"batchItemFailures": [{"itemIdentifier": item} for item in failed]}


def _place(record: Mapping[str, Any]) -> dict[str, Any]:
    """The sequence number, by which the answer names a change of a table."""
    return {
        "item": reading.text_or_none(
            reading.mapping_or_empty(record.get("dynamodb")).get("SequenceNumber")
        )
    }


def _change(record: Mapping[str, Any], where: str) -> Record:
    from kiqbridge.features.streams.attribute_value import plain  # noqa: PLC0415 - Kinesis has none

    arn, identifier = (
        reading.text_at(record, "eventSourceARN", where),
        reading.text_at(record, "eventID", where),
    )
    change = reading.mapping_at(record, "dynamodb", where)
    item = reading.text_at(change, "SequenceNumber", f"{where}.dynamodb")
    images = {
        name: {
            key: plain(value, f"{where}.dynamodb.{name}.{key}")
            for key, value in reading.mapping_at(change, name, f"{where}.dynamodb").items()
        }
        for name in _IMAGES
        if name in change
    }
    name = record.get("eventName")
    inserted = images.get("NewImage") if name == "INSERT" else None
    return Record(
        source="dynamodb",
        event={**record, "dynamodb": {**change, **images}},
        job=inserted if inserted is not None and _is_job(inserted) else None,
        where=f"{where}.dynamodb.NewImage",
        origin=arn,
        facets=reading.facets_of(
            event=name,
            table=arn.partition(":table/")[2].partition("/")[0],
            region=record.get("awsRegion"),
            principal=reading.mapping_or_empty(record.get("userIdentity")).get("principalId"),
        ),
        identity=Identity(Source.DYNAMODB, (arn, identifier)),
        item=item,
    )


def _is_job(item: Mapping[str, Any]) -> bool:
    """Stricter than for messages: a table may well have an attribute `class`."""
    if isinstance(item.get("jobs"), list):
        return True
    return ("class" in item or active_job.KEY in item) and isinstance(item.get("args"), list)


def _place_of_kinesis(record: Mapping[str, Any]) -> dict[str, Any]:
    """The sequence number, by which the answer names a record; a pipe leaves the inner object out."""
    kinesis = reading.mapping_or_empty(record.get("kinesis", record))
    return {"item": reading.text_or_none(kinesis.get("sequenceNumber"))}


def _data(record: Mapping[str, Any], where: str) -> Record:
    kinesis = reading.mapping_or_empty(record.get("kinesis", record))
    arn, identifier = (
        reading.text_at(record, "eventSourceARN", where),
        reading.text_at(record, "eventID", where),
    )
    where = f"{where}.kinesis" if "kinesis" in record else where
    item = reading.text_at(kinesis, "sequenceNumber", where)
    data = reading.decoded(reading.text_at(kinesis, "data", where), f"{where}.data")
    if data.startswith(_AGGREGATED):
        raise EventError(
            f"{where}.data: several records that the Kinesis Producer Library aggregated; set its "
            "AggregationEnabled to false, or put a function before this one that takes them apart"
        )
    try:
        value = reading.parsed(data.decode())  # JSON, or the text
    except UnicodeDecodeError:
        value = kinesis["data"]
    made = Record(
        source="kinesis",
        event={**record, "kinesis": {**kinesis, "data": value}},
        job=value,
        where=f"{where}.data",
        origin=arn,
        facets=reading.facets_of(
            stream=arn.rpartition("/")[2],
            partition_key=kinesis.get("partitionKey"),
            region=record.get("awsRegion"),
        ),
        identity=Identity(Source.KINESIS, (arn, identifier)),
        item=item,
    )
    if data.startswith(_GZIP):
        return carry(made, family("logs").part(data, made.where))
    return made
