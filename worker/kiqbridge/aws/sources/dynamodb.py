"""Streams of DynamoDB tables: each record is a change of an item.

Keys and images are plain values for mappings (`attribute_value`). An item that is inserted and is a job by
itself (`class` and `args`, as in a table that serves as an outbox) needs no mapping.

The identity is the stream and the `eventID`, which a change keeps at each delivery. The checkpoint is the
sequence number.
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources import streams
from kiqbridge.aws.sources.attribute_value import plain
from kiqbridge.aws.sources.reading import facets_of, mapping_at, records_of, text_at
from kiqbridge.errors import EventError
from kiqbridge.wire import active_job
from kiqbridge.wire.guards import Identity, Source

_SERVICE: Final = "aws:dynamodb"
_IMAGES: Final = ("Keys", "NewImage", "OldImage")


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each change, in the order of the shard.

    Raises:
        EventError: of a tumbling window.
    """
    records = [
        _record(record, f"Records[{index}]", error)
        for index, (record, error) in enumerate(records_of(event, _SERVICE))
    ]
    return streams.delivery("dynamodb", event, records)


def _record(record: Mapping[str, Any], where: str, error: EventError | None) -> Record:
    change = record.get("dynamodb")
    item = change.get("SequenceNumber") if isinstance(change, Mapping) else None
    item = item if isinstance(item, str) else None
    if error is None:
        try:
            return _change(record, where, item)
        except EventError as unreadable:
            error = unreadable
    return Record(source="dynamodb", event=record, where=where, item=item, error=error)


def _change(record: Mapping[str, Any], where: str, item: str | None) -> Record:
    arn, identifier = text_at(record, "eventSourceARN", where), text_at(record, "eventID", where)
    change = mapping_at(record, "dynamodb", where)
    text_at(change, "SequenceNumber", f"{where}.dynamodb")
    images = {
        name: {
            key: plain(value, f"{where}.dynamodb.{name}.{key}")
            for key, value in mapping_at(change, name, f"{where}.dynamodb").items()
        }
        for name in _IMAGES
        if name in change
    }
    name = record.get("eventName")
    inserted = images.get("NewImage") if name == "INSERT" else None
    user = record.get("userIdentity")
    table = arn.partition(":table/")[2].partition("/")[0]
    return Record(
        source="dynamodb",
        event={**record, "dynamodb": {**change, **images}},
        job=inserted if inserted is not None and _is_job(inserted) else None,
        where=f"{where}.dynamodb.NewImage",
        origin=arn,
        facets=facets_of(
            event=name,
            table=table,
            region=record.get("awsRegion"),
            principal=user.get("principalId") if isinstance(user, Mapping) else None,
        ),
        identity=Identity(Source.DYNAMODB, (arn, identifier)),
        item=item,
    )


def _is_job(item: Mapping[str, Any]) -> bool:
    """Stricter than for messages: a table may well have an attribute `class`."""
    if isinstance(item.get("jobs"), list):
        return True
    return ("class" in item or active_job.KEY in item) and isinstance(item.get("args"), list)
