"""All other services, by one path: what `service_forms` recognizes goes to a mapping, with its name.

Nothing in these events is a job. One record carries the whole event. It has an identity if the service
sends one that it repeats at each attempt; else each delivery is a new event, and the mapping may make a
`dedupe_key`. What no form recognizes is a direct invocation (`direct`).
"""

from collections.abc import Mapping
from typing import Any

from kiqbridge.aws.record import Delivery, Record, ignored
from kiqbridge.aws.sources import direct
from kiqbridge.aws.sources.reading import facets_of, of_service
from kiqbridge.aws.sources.service_forms import FORMS, Form, at
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import check_json, shorten


def read(event: Mapping[str, Any]) -> Delivery:
    """One record of a known service, or of whoever invoked the function directly.

    Raises:
        EventError: the service waits for an answer that an enqueued job cannot give, or the records
            are of a service that is not known.
    """
    for source, form in FORMS.items():
        if form.is_its_own(event):
            return _of_form(source, form, event)
    if "Records" in event:
        raise EventError(_unknown_records(at(event, "Records.0")))
    return direct.read(event)


def _of_form(source: str, form: Form, event: Mapping[str, Any]) -> Delivery:
    if form.refused:
        raise EventError(f"event: {form.what} cannot become a job: {form.refused}")
    if form.test is not None and form.test(event):
        return ignored(source, f"a test event of {form.what}")
    origin = at(event, form.origin)
    record = Record(
        source=source,
        event=event,
        origin=origin if isinstance(origin, str) else "",
        facets=facets_of(**{name: at(event, path) for name, path in form.facets.items()}),
        identity=_identity(source, form, event),
    )
    return Delivery(source=source, records=[record], success=event if form.returns_event else None)


def _identity(source: str, form: Form, event: Mapping[str, Any]) -> Identity | None:
    """None also if the event has not all of it: the service did not say that it is a repetition."""
    texts = [at(event, path) for path in form.identity]
    known = [text for text in texts if isinstance(text, str) and text]
    if not known or len(known) < len(texts):
        return None
    try:
        check_json(known, "event")
    except PayloadError as error:
        raise EventError(str(error)) from error
    return of_service(source, *known)


def _unknown_records(first: object) -> str:
    if not isinstance(first, Mapping):
        return f"Records[0]: {shorten(first)} is not an object"
    service = first.get("eventSource") or first.get("EventSource")
    return (
        f"Records: records of {shorten(service)} are of no service that this function knows; invoke it "
        "with the job itself, or send them through a queue, a topic or a bus with a mapping"
    )
