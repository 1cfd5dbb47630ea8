"""Notifications of S3: each record is an object that was created, deleted, restored or tagged.

Keys are unquoted: in a notification they are form-encoded (a space is `+`), in an event of EventBridge
they are not.

The identity is bucket, key, what happened (`created`, `deleted`) and the sequencer: AWS documents that
duplicate notifications of one change have the same sequencer, and that each change of a key has a later
one. The version's id says no more: each version has a sequencer. Two ways by which one change arrives
(directly, SNS, SQS, EventBridge) so are one event. This never takes two changes for one: equal
sequencers of one key are one change. Should a way give another sequencer, the event would be enqueued
once by each way. What has no sequencer (restored, replicated, expired) goes by the request's id.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources import reading
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source

_CHANGES: Final = {
    "ObjectCreated": "created",
    "Object Created": "created",
    "ObjectRemoved": "deleted",
    "Object Deleted": "deleted",
}
"""Name of a notification up to its colon, or an event's `detail-type` → what happened to the key."""


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each change; all of them or none are enqueued."""
    return Delivery(source="s3", records=reading.records_of(event, "s3", _change))


def carried(value: Mapping[str, Any], where: str) -> Record:
    """The one record of a message that carries a notification.

    Raises:
        EventError: one of its changes cannot be read, so that none of the message is enqueued.
    """
    parts = reading.records_of(value, "s3", _change, where=where)
    for part in parts:
        if part.error is not None:
            raise part.error
    if len(parts) == 1:
        return parts[0]
    return Record(source="s3", event=value, where=where, parts=parts)


def facets_of_detail(detail: Mapping[str, Any]) -> dict[str, str]:
    """Bucket and key of an event of EventBridge."""
    return reading.facets_of(
        bucket=reading.mapping_or_empty(detail.get("bucket")).get("name"),
        key=reading.mapping_or_empty(detail.get("object")).get("key"),
    )


def identity_of_event(event: Mapping[str, Any]) -> Identity | None:
    """The identity of an event of EventBridge; None if it has no sequencer or is of another kind."""
    change = _CHANGES.get(str(event["detail-type"]))
    try:
        detail = reading.mapping_at(event, "detail", "")
        thing = reading.mapping_at(detail, "object", "detail")
        bucket = reading.text_at(reading.mapping_at(detail, "bucket", "detail"), "name", "")
        return (
            _identity(bucket, reading.text_at(thing, "key", ""), change, thing) if change else None
        )
    except EventError:
        return None  # then its id is its identity


def _change(record: Mapping[str, Any], where: str) -> Record:
    s3 = reading.mapping_at(record, "s3", where)
    name = reading.text_at(record, "eventName", where)
    bucket = reading.text_at(
        reading.mapping_at(s3, "bucket", f"{where}.s3"), "name", f"{where}.s3.bucket"
    )
    thing = reading.mapping_at(s3, "object", f"{where}.s3")
    key = unquote_plus(reading.text_at(thing, "key", f"{where}.s3.object"))
    kind = name.partition(":")[0]
    identity = _identity(bucket, key, _CHANGES.get(kind, name), thing)
    if identity is None:
        response = reading.mapping_at(record, "responseElements", where)
        request = reading.text_at(response, "x-amz-request-id", f"{where}.responseElements")
        identity = Identity(Source.S3, (bucket, key, name, f"request {request}"))
    return Record(
        source="s3",
        event={**record, "s3": {**s3, "object": {**thing, "key": key}}},
        where=where,
        origin=f"s3:{bucket}",
        facets=reading.facets_of(
            bucket=bucket, key=key, event=name, region=record.get("awsRegion")
        ),
        identity=identity,
    )


def _identity(bucket: str, key: str, change: str, thing: Mapping[str, Any]) -> Identity | None:
    sequencer = thing.get("sequencer")
    if not isinstance(sequencer, str) or not sequencer:
        return None
    parts = (bucket, key, change, reading.text_at(thing, "sequencer", "object"))
    return Identity(Source.S3, parts)
