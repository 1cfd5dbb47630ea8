"""Subscriptions of CloudWatch Logs: Base64 of gzip of JSON, which is unpacked for mappings.

Decompression is bounded, so that a few bytes cannot fill the function's memory. The identity is the log
stream, with the ids of the first and the last of the batch's events.
"""

import zlib
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record, ignored
from kiqbridge.aws.sources.reading import decoded, facets_of, mapping_at, of_service, text_at
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import json_text

LARGEST: Final = 8 * 1024 * 1024
"""Bytes after decompression; CloudWatch Logs sends batches of at most 1 MB or so."""
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


def read(event: Mapping[str, Any]) -> Delivery:
    """One record with the whole batch; a control message is answered.

    Raises:
        EventError: it cannot be unpacked.
    """
    text = text_at(mapping_at(event, "awslogs", ""), "data", "awslogs")
    record = part(decoded(text, "awslogs.data"), "awslogs.data")
    if record.ignored:
        return ignored("logs", record.ignored)
    return Delivery(source="logs", records=[record])


def part(data: bytes, where: str) -> Record:
    """The record of a batch, wherever it comes from.

    Args:
        data: gzip, as CloudWatch Logs sends it.
        where: for messages.

    Raises:
        EventError: it cannot be unpacked, or is no batch of CloudWatch Logs.
    """
    batch = _unpacked(data, where)
    if batch.get("messageType") == "CONTROL_MESSAGE":
        why = "the message by which CloudWatch Logs checks a subscription"
        return Record(source="logs", event=batch, where=where, ignored=why)
    group, stream = text_at(batch, "logGroup", where), text_at(batch, "logStream", where)
    events = batch.get("logEvents")
    if not isinstance(events, list) or not events:
        raise EventError(f"{where}.logEvents: {shorten(events)} is not a list with events")
    ids = [
        text_at(each, "id", f"{where}.logEvents") if isinstance(each, Mapping) else ""
        for each in (events[0], events[-1])
    ]
    owner = batch.get("owner")
    return Record(
        source="logs",
        event=batch,
        where=where,
        origin=group,
        facets=facets_of(log_group=group, log_stream=stream, account=owner),
        identity=of_service("logs", owner if isinstance(owner, str) else "", group, stream, *ids),
    )


def _unpacked(data: bytes, where: str) -> Mapping[str, Any]:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = unpacker.decompress(data, LARGEST)
    except zlib.error as error:
        raise EventError(f"{where}: is not gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise EventError(
            f"{where}: more than {LARGEST:,} bytes after decompression; lower the batch size of the subscription"
        )
    try:
        batch = json_text.loads(text)
    except (PayloadError, ValueError) as error:
        raise EventError(f"{where}: is not the gzip of a JSON text: {error}") from error
    if not isinstance(batch, Mapping):
        raise EventError(f"{where}: {shorten(batch)} is not a batch of CloudWatch Logs")
    return batch
