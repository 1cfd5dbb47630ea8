"""All other services, by one path: what `services.json` recognizes goes to a mapping, with its name.

Nothing in these events is a job. One record carries the whole event. It has an identity if the service
sends one that it repeats at each attempt; else each delivery is a new event, and the mapping may make a
`dedupe_key`.

Sources of the forms: the services' developer guides, and the sample events of `sam local generate-event`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record, ignored
from kiqbridge.aws.sources.reading import facets_of, of_service
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import check_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One service's events: a row of `services.json`.

    Attributes:
        what: it, for messages.
        keys: paths that lead to a value in each of its events, such as `Records.0.cf`.
        values: path → what is there.
        test: the same of an event by which the service tests the function.
        origin: path of who sent it.
        identity: paths of the texts that are the same at each attempt and at no other event; none = the
            service sends none.
        facets: name → path; `_` in a name stands for `-`.
        refused: why a job cannot serve it, and what to do; "" = a mapping may take it.
        returns_event: whether the service expects its own event as the answer.
    """

    what: str
    keys: Sequence[str]
    values: Mapping[str, object] = field(default_factory=dict)
    test: Mapping[str, object] = field(default_factory=dict)
    origin: str = ""
    identity: Sequence[str] = ()
    facets: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    returns_event: bool = False

    def is_its_own(self, event: Any) -> bool:
        """Whether the event has this form."""
        return all(at(event, path) is not None for path in self.keys) and _has(event, self.values)


def at(event: object, path: str) -> Any:
    """The value at a path such as `Records.0.ses.mail`, None if there is none; `/` is a key's own dot."""
    if not path:
        return None
    value = event
    for step in (key.replace("/", ".") for key in path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _has(event: object, values: Mapping[str, object]) -> bool:
    return all(at(event, path) == value for path, value in values.items())


FORMS: Final[dict[str, Form]] = {
    source: Form(**row)
    for source, row in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}
"""Source → its form; the first that fits is taken."""


def read(event: Any) -> Delivery | None:
    """One record of a service that is known; None: of no such service.

    Args:
        event: an object, or a list of objects that are no jobs.

    Raises:
        EventError: the service waits for an answer that an enqueued job cannot give.
    """
    for source, form in FORMS.items():
        if form.is_its_own(event):
            return _of_form(source, form, event)
    return None


def _of_form(source: str, form: Form, event: Any) -> Delivery:
    if form.refused:
        raise EventError(f"event: {form.what} cannot become a job: {form.refused}")
    if form.test and _has(event, form.test):
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


def _identity(source: str, form: Form, event: object) -> Identity | None:
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
