"""Events of an event bus: `detail` is a job or is mapped; the event's `id` is its identity.

Custom buses, partners' buses and AWS services send the same envelope. EventBridge repeats the `id` when it
delivers an event again. One that is replayed from an archive keeps its id, but is meant to run once more:
it goes by the replay's name as well.

`Object Created` and `Object Deleted` of S3 go by S3's own identity (`s3`), so that a bucket which
notifies the bus and a queue enqueues once. A replay of them goes by the event's id again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources.carried import carry
from kiqbridge.aws.sources.reading import facets_of
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.guards import Identity, event_identity
from kiqbridge.wire.payload import check_json, shorten


def read(event: Mapping[str, Any]) -> Delivery:
    """One record, whose detail may be a job.

    Raises:
        EventError: an event without an id.
    """
    return Delivery(source="bus", records=[part(event, "")])


def is_event(value: Mapping[str, Any]) -> bool:
    """Whether the object that a message carries is an event of a bus."""
    return all(name in value for name in ("id", "detail-type", "source", "detail"))


def part(event: Mapping[str, Any], where: str) -> Record:
    """The record of an event, wherever it comes from.

    Raises:
        EventError: an event without an id.
    """
    source = event.get("source")
    detail = event.get("detail")
    record = Record(
        source="bus",
        event=event,
        job=detail,
        where=f"{where}.detail" if where else "detail",
        origin=source if isinstance(source, str) else "",
        facets=facets_of(
            detail_type=event["detail-type"],
            event_source=source,
            account=event.get("account"),
            region=event.get("region"),
        ),
        identity=_identity(event),
    )
    if source == "aws.s3" and isinstance(detail, Mapping):
        return _of_s3(record, event, detail)
    if source == "lambda" and isinstance(detail, Mapping) and "requestPayload" in detail:
        from kiqbridge.aws.sources import destination  # noqa: PLC0415 - few events need it

        return replace(carry(record, destination.part(detail, record.where)), event=event)
    return record


def _of_s3(record: Record, event: Mapping[str, Any], detail: Mapping[str, Any]) -> Record:
    from kiqbridge.aws.sources import s3  # noqa: PLC0415 - few events need it

    identity = None if event.get("replay-name") else s3.identity_of_event(event)
    return replace(
        record,
        identity=identity or record.identity,
        facets={**record.facets, **s3.facets_of_detail(detail)},
    )


def _identity(event: Mapping[str, Any]) -> Identity:
    identity, replay = event.get("id"), event.get("replay-name")
    for name, value in (("id", identity), ("replay-name", replay)):
        if name == "replay-name" and value is None:
            continue
        if not isinstance(value, str) or not value:
            what = "events" if name == "id" else "the replays of an archive"
            raise EventError(
                f"{name}: {shorten(value)} is not the text by which EventBridge distinguishes {what}"
            )
        try:
            check_json(value, name)
        except PayloadError as error:
            raise EventError(str(error)) from error
    return event_identity(str(identity), replay)
