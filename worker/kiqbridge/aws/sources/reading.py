"""Reading values of events that may be of any type: what is missing becomes an EventError, no other one.

Nothing here recurses, so that an event nested to any depth is read.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiqbridge.aws.sources.text_limit import check_size
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import check_json, shorten

_LONGEST: Final = 200
"""Characters of an identity that stand in log lines as they are; what is longer is content rather than a name."""


def records_of(event: Mapping[str, Any], service: str) -> Iterator[tuple[Any, EventError | None]]:
    """The records of a batch, each with the reason why it is none of this service, if it is none.

    Args:
        event: whose `Records` is a list, as `sources` checked.
        service: the `eventSource` that all of them have.
    """
    for index, record in enumerate(event["Records"]):
        where = f"Records[{index}]"
        if not isinstance(record, (dict, Mapping)):
            yield {}, EventError(f"{where}: {shorten(record)} is not a record of {service}")
            continue
        found = record.get("eventSource") or record.get("EventSource")
        if found != service:
            yield (
                record,
                EventError(
                    f"{where}.eventSource: {shorten(found)} stands among records of {service}; send "
                    "the records of one service in one event"
                ),
            )
            continue
        yield record, None


def mapping_at(value: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    """The object under a name.

    Raises:
        EventError: there is none.
    """
    found = value.get(name)
    if not isinstance(found, Mapping):
        raise EventError(f"{_path(where, name)}: {shorten(found)} is not an object")
    return found


def text_at(value: Mapping[str, Any], name: str, where: str) -> str:
    """The text under a name, which is part of an identity: not empty, and Redis takes it.

    Raises:
        EventError: there is none.
    """
    found = value.get(name)
    if type(found) is str and found.isascii() and found:
        return found
    path = _path(where, name)
    if not isinstance(found, str) or not found:
        raise EventError(f"{path}: {shorten(found)} is not a text with at least one character")
    try:
        check_json(found, path)
    except PayloadError as error:
        raise EventError(str(error)) from error
    return found


def parsed(text: str) -> Any:
    """The value of a JSON text, or the text itself if it is none: a mapping may take that.

    Raises:
        EventError: it is too large.
    """
    check_size(text)
    try:
        return json_text.loads(text.encode())
    except (PayloadError, ValueError):
        return text


def facets_of(**values: object) -> dict[str, str]:
    """Those that are texts and not empty; `_` in a name stands for `-`."""
    return {
        name.replace("_", "-"): value
        for name, value in values.items()
        if isinstance(value, str) and value
    }


def trace_of(facets: Mapping[str, str], xray: object = None) -> dict[str, str]:
    """The trace that a message's attributes (`attribute.traceparent`) or its X-Ray header carry."""
    parent = facets.get("attribute.traceparent")
    if parent is None and xray is None:
        return {}
    from kiqbridge.aws.trace import attributes  # noqa: PLC0415 - few messages carry one

    return attributes(parent=parent, state=facets.get("attribute.tracestate"), xray=xray)


def of_service(name: str, *texts: str) -> Identity:
    """The identity of an event that these texts identify together, of a service that has no source in the guards."""
    text = json.dumps(texts, separators=(",", ":"))
    if len(text) > _LONGEST:
        text = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return Identity(Source.SERVICE, (name, text))


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
