"""Streams of Kinesis: the data of each record is a job, or is mapped.

The identity is the stream and the `eventID`, which is shard and sequence number. The checkpoint is the
sequence number. Data that the Kinesis Producer Library aggregated is refused: it is many records in one,
in a format of its own. What CloudWatch Logs sends through a stream is unpacked (`logs`).
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources import streams
from kiqbridge.aws.sources.carried import carry
from kiqbridge.aws.sources.reading import facets_of, parsed, records_of, text_at
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import shorten_argument

_SERVICE: Final = "aws:kinesis"
_AGGREGATED: Final = b"\xf3\x89\x9a\xc2"
"""The Kinesis Producer Library begins what it aggregates with these bytes."""
_GZIP: Final = b"\x1f\x8b"


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each record of the shard, in their order.

    Raises:
        EventError: of a tumbling window.
    """
    records = [
        _record(record, f"Records[{index}]", error)
        for index, (record, error) in enumerate(records_of(event, _SERVICE))
    ]
    return streams.delivery("kinesis", event, records)


def _record(record: Mapping[str, Any], where: str, error: EventError | None) -> Record:
    kinesis = record.get("kinesis", record)  # a pipe leaves the inner object out
    kinesis = kinesis if isinstance(kinesis, Mapping) else {}
    item = kinesis.get("sequenceNumber")
    item = item if isinstance(item, str) else None
    if error is None:
        try:
            return _message(record, kinesis, where, item)
        except EventError as unreadable:
            error = unreadable
    return Record(source="kinesis", event=record, where=where, item=item, error=error)


def _message(
    record: Mapping[str, Any], kinesis: Mapping[str, Any], where: str, item: str | None
) -> Record:
    arn, identifier = text_at(record, "eventSourceARN", where), text_at(record, "eventID", where)
    where = f"{where}.kinesis" if "kinesis" in record else where
    text_at(kinesis, "sequenceNumber", where)
    data = _data(text_at(kinesis, "data", where), f"{where}.data")
    value = _value(data, kinesis["data"])
    made = Record(
        source="kinesis",
        event={**record, "kinesis": {**kinesis, "data": value}},
        job=value,
        where=f"{where}.data",
        origin=arn,
        facets=facets_of(
            stream=arn.rpartition("/")[2],
            partition_key=kinesis.get("partitionKey"),
            region=record.get("awsRegion"),
        ),
        identity=Identity(Source.KINESIS, (arn, identifier)),
        item=item,
    )
    if data.startswith(_GZIP):
        from kiqbridge.aws.sources import logs  # noqa: PLC0415 - few events need it

        return carry(made, logs.part(data, made.where))
    return made


def _data(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventError(f"{where}: {shorten_argument(text)} is not Base64") from error
    if data.startswith(_AGGREGATED):
        raise EventError(
            f"{where}: several records that the Kinesis Producer Library aggregated; set its "
            "AggregationEnabled to false, or put a function before this one that takes them apart"
        )
    return data


def _value(data: bytes, quoted: str) -> Any:
    """JSON, or the text, or what was delivered if it is neither."""
    try:
        return parsed(data.decode())
    except UnicodeDecodeError:
        return quoted
