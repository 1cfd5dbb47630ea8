"""Events of an event bus: `detail` is a job or is mapped; the event's `id` is its identity.

EventBridge repeats the `id` when it delivers an event again. One that is replayed from an archive keeps
its id, but is meant to run once more: it goes by the replay's name as well.
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.guards import Identity, event_identity
from kiqbridge.wire.payload import check_json, shorten

_SCHEDULERS: Final = ("aws.events", "aws.scheduler")
"""Sources that AWS reserves; their events carry no job, only the fact that it is time."""

_INPUT_FORM: Final = (
    'give its target an Input such as {"class": "NightlyReport", "args": [], "tick": {"schedule": '
    '"STACK/NightlyReport", "at": "<aws.scheduler.scheduled-time>"}}; a rule that is not of '
    "EventBridge Scheduler needs an InputTransformer that fills in its ARN and $.time instead"
)


def read(event: Mapping[str, Any]) -> Delivery:
    """One record, whose detail may be a job.

    Raises:
        EventError: a schedule without an Input, or an event without an id.
    """
    source = event.get("source")
    if source in _SCHEDULERS:
        raise EventError(
            f"source: {shorten(source)} delivered a schedule that names no job; {_INPUT_FORM}"
        )
    record = Record(
        source="bus",
        event=event,
        job=event.get("detail"),
        where="detail",
        origin=source if isinstance(source, str) else "",
        facets={"detail-type": str(event["detail-type"])},
        identity=_identity(event),
    )
    return Delivery(source="bus", records=[record])


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
