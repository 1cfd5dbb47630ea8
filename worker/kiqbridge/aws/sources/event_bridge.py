"""Events of EventBridge: those of an event bus, and of schedules without an Input.

Event bus: `detail` is a job or is mapped; the event's `id` is its identity. Custom buses, partners' buses and
AWS services send the same envelope. EventBridge repeats the `id` when it delivers an event again. One that is
replayed from an archive keeps its id, but is meant to run once more: it goes by the replay's name as well.
`Object Created` and `Object Deleted` of S3 go by S3's own identity (`s3`), so that a bucket which notifies the
bus and a queue enqueues once. A replay of them goes by the event's id again.

Schedules: a scheduled rule, or Scheduler's own event. They name no job, only a time. The identity is the ARN
and the time for which it was due, not the event's id: a rule that fires twice for one time sends two ids.
With a job as its Input, a schedule is a direct invocation (`direct`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record, carry
from kiqbridge.aws.sources import family
from kiqbridge.aws.sources.reading import facets_of, text_at
from kiqbridge.errors import EventError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.guards import Identity, Source, event_identity

_INPUT_FORM: Final = (
    'give its target an Input such as {"class": "NightlyReport", "args": [], "tick": {"schedule": '
    '"STACK/NightlyReport", "at": "<aws.scheduler.scheduled-time>"}}; a rule that is not of '
    "EventBridge Scheduler needs an InputTransformer that fills in its ARN and $.time instead"
)


def read(event: Mapping[str, Any]) -> Delivery:
    """One record, whose detail may be a job; that of a schedule only a mapping takes.

    Raises:
        EventError: an event without an id.
    """
    record = part(event, "")
    return Delivery(source=record.source, records=[record])


def is_of_schedule(event: Mapping[str, Any]) -> bool:
    """Whether an event of a bus is that of a scheduled rule, or of Scheduler."""
    return event.get("source") in ("aws.events", "aws.scheduler")


def is_event(value: Mapping[str, Any]) -> bool:
    """Whether the object that a message carries is an event of a bus."""
    return all(name in value for name in ("id", "detail-type", "source", "detail"))


def part(event: Mapping[str, Any], where: str) -> Record:
    """The record of an event, wherever it comes from.

    Raises:
        EventError: an event without an id.
    """
    if is_of_schedule(event):
        return _of_schedule(event, where)
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
        s3 = family("s3")
        identity = None if event.get("replay-name") else s3.identity_of_event(event)
        return replace(
            record,
            identity=identity or record.identity,
            facets={**record.facets, **s3.facets_of_detail(detail)},
        )
    if source == "lambda" and isinstance(detail, Mapping) and "requestPayload" in detail:
        carried = family("destination").part(detail, record.where)
        return replace(carry(record, carried), event=event)
    return record


def _identity(event: Mapping[str, Any]) -> Identity:
    replay = event.get("replay-name")
    return event_identity(
        _name(event, "id", "events"),
        None if replay is None else _name(event, "replay-name", "the replays of an archive"),
    )


def _name(event: Mapping[str, Any], key: str, what: str) -> str:
    found = event.get(key)
    if not isinstance(found, str) or not found:
        raise EventError(
            f"{key}: {shorten(found)} is not the text by which EventBridge distinguishes {what}"
        )
    return text_at(event, key, "")


def _of_schedule(event: Mapping[str, Any], where: str) -> Record:
    """The record of a schedule's event, wherever it comes from; it never raises."""
    resources = event.get("resources")
    arn = resources[0] if isinstance(resources, list) and resources else None
    error, identity = None, None
    try:
        replay = text_at(event, "replay-name", where) if event.get("replay-name") else ""
        due = text_at(event, "time", where)
        identity = Identity(
            Source.SCHEDULE, (text_at({"resources[0]": arn}, "resources[0]", where), due, replay)
        )
    except EventError as unreadable:
        error = unreadable
    return Record(
        source="schedule",
        event=event,
        where=where,
        origin=arn if isinstance(arn, str) else "",
        facets=facets_of(
            detail_type=event.get("detail-type"),
            account=event.get("account"),
            region=event.get("region"),
            schedule=str(arn).rpartition("/")[2] if arn else None,
        ),
        identity=identity,
        error=error,
        no_job=(
            f"source: {shorten(event.get('source'))} delivered a schedule that names no job; {_INPUT_FORM}"
        ),
    )
