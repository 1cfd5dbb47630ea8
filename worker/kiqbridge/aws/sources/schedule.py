"""Schedules without an Input: a scheduled rule, or Scheduler's own event. They name no job, only a time.

The identity is the ARN and the time for which it was due, not the event's id: a rule that fires twice
for one time sends two ids. With a job as its Input, a schedule is a direct invocation (`direct`).
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources.reading import facets_of, text_at
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import shorten

_INPUT_FORM: Final = (
    'give its target an Input such as {"class": "NightlyReport", "args": [], "tick": {"schedule": '
    '"STACK/NightlyReport", "at": "<aws.scheduler.scheduled-time>"}}; a rule that is not of '
    "EventBridge Scheduler needs an InputTransformer that fills in its ARN and $.time instead"
)


def read(event: Mapping[str, Any]) -> Delivery:
    """One record, which only a mapping takes."""
    return Delivery(source="schedule", records=[part(event, "")])


def part(event: Mapping[str, Any], where: str) -> Record:
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
            f"source: {shorten(event.get('source'))} delivered a schedule that names no job; "
            f"{_INPUT_FORM}"
        ),
    )
