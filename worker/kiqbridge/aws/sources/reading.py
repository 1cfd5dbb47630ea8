"""Reading values of events that may be of any type: what is missing becomes an EventError, no other one.

Nothing here recurses, so that an event nested to any depth is read.
"""

import base64
import binascii
import contextlib
import contextvars
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kiqbridge.aws.plain import trace_attributes
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.runtime.redaction import shorten, shorten_argument
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import check_json

_LONGEST: Final = 200
"""Characters of an identity that stand in log lines as they are; what is longer is content rather than a name."""


_TEXT_LIMIT: contextvars.ContextVar[int] = contextvars.ContextVar("largest_text", default=0)
"""State of one invocation, so that not every reader of a part of an event has to pass it on."""


def text_limit() -> int:
    """Bytes of the largest text that is parsed; 0 = any."""
    return _TEXT_LIMIT.get()


@contextlib.contextmanager
def texts_limited(most: int) -> Iterator[None]:
    """Within, `check_size` refuses texts of more than so many bytes, before they are parsed."""
    token = _TEXT_LIMIT.set(most)
    try:
        yield
    finally:
        _TEXT_LIMIT.reset(token)


def check_size(text: str | bytes) -> None:
    """Refuse a text that is too large to be parsed.

    Raises:
        EventError: it has more bytes, or characters, than allowed.
    """
    most = _TEXT_LIMIT.get()
    if most and len(text) > most:
        raise EventError(
            f"text: {len(text)} bytes are more than the {most} of KIQBRIDGE_MAX_EVENT_BYTES; put the data into "
            "S3 and send its key"
        )


def records_of(
    event: Mapping[str, Any],
    source: str,
    read: Callable[[Mapping[str, Any], str], Record],
    about: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _record: {},
    where: str = "",
) -> list[Record]:
    """The records of a batch; one that cannot be read has the error, and the others are read.

    Args:
        event: whose `Records` is a list, as `sources` checked.
        source: the `eventSource` that all of them have, without `aws:`.
        read: makes a record of what was delivered and its path; raises EventError.
        about: what a record that cannot be read says all the same.
        where: path of the event.
    """
    records = []
    for index, delivered in enumerate(event["Records"]):
        path = _path(where, f"Records[{index}]")
        found = delivered if isinstance(delivered, (dict, Mapping)) else {}
        try:
            _check_service(delivered, f"aws:{source}", path)
            records.append(read(found, path))
        except EventError as error:
            records.append(
                Record(source=source, event=found, where=path, error=error, **about(found))
            )
    return records


def service_of(record: object) -> str:
    """The `eventSource` of a record, in the spelling of SNS, too; "" = it has none."""
    if not isinstance(record, (dict, Mapping)):
        return ""
    return str(record.get("eventSource") or record.get("EventSource") or "")


def _check_service(record: object, service: str, where: str) -> None:
    if not isinstance(record, (dict, Mapping)):
        raise EventError(f"{where}: {shorten(record)} is not a record of {service}")
    found = record.get("eventSource") or record.get("EventSource")
    if found != service:
        raise EventError(
            f"{where}.eventSource: {shorten(found)} stands among records of {service}; send "
            "the records of one service in one event"
        )


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


def text_or_none(value: object) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, (dict, Mapping)) else {}


def decoded(text: str, where: str) -> bytes:
    """The bytes of a Base64 text.

    Raises:
        EventError: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventError(f"{where}: {shorten_argument(text)} is not Base64") from error


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
    """The facets that are texts and not empty; `_` in a name stands for `-`."""
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
    return trace_attributes(parent=parent, state=facets.get("attribute.tracestate"), xray=xray)


def of_service(name: str, *texts: str) -> Identity:
    """The identity of an event that these texts identify together, of a service that has no source in the guards."""
    text = json.dumps(texts, separators=(",", ":"))
    if len(text) > _LONGEST:
        text = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return Identity(Source.SERVICE, (name, text))


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
