"""What readers in Ruby need of a job's attributes: its Web UI and its sets raise over others, for all jobs.

`DeadSet#each` of a set with one member whose `tags` are a number shows none of the others. So code that
writes a job into a set puts aside what they cannot show. Nothing is lost: the values are kept in the attribute
`unreadable`, which no reader looks at.
"""

import base64
import binascii
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.wire import json_text
from kiqbridge.wire.payload import new_jid

KEPT_IN: Final = "unreadable"
"""Attribute that holds what was put aside: name → value."""

_MOST_INFLATED_BYTES = 1_000_000


def showable(payload: dict[str, Any]) -> dict[str, Any]:
    """The job as every reader can show it; the same object where nothing stands in the way.

    `tags` that are no list, times that are no finite number and an `error_backtrace` that cannot be
    inflated are put aside; a `jid` that is no text is replaced, since pages are found by it.
    """
    odd = [
        name
        for name, is_shown in _CHECKS.items()
        if name in payload and not is_shown(payload[name])
    ]
    if not odd:
        return payload
    kept = payload.get(KEPT_IN)
    aside = {**(kept if isinstance(kept, dict) else {}), **{name: payload[name] for name in odd}}
    shown = {name: value for name, value in payload.items() if name not in odd}
    if "jid" in odd:
        shown["jid"] = new_jid()
    shown[KEPT_IN] = aside
    return shown


def replacements(strings: Mapping[bytes, bytes], others: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Attributes to write behind those of a text that is not parsed, of which readers take the last.

    Args:
        strings: name → value of the plain strings of the text's outermost object.
        others: name → first character of the value, for the others.
    """
    found: dict[str, Any] = {}
    if b"tags" in strings or others.get(b"tags", b"[") not in b"[nf":
        found["tags"] = None
    if not strings.get(b"jid") and others.get(b"jid") != b'"':
        found["jid"] = new_jid()
    for name in (b"created_at", b"enqueued_at"):
        if name in strings or others.get(name, b"n") not in b"-0123456789nf":
            found[name.decode()] = None
    trace = strings.get(b"error_backtrace")
    odd = others.get(b"error_backtrace", b"n") not in b"[nf"
    if odd or (trace is not None and not _is_backtrace(trace.decode(errors="replace"))):
        found["error_backtrace"] = None
    return found


def _is_tags(value: object) -> bool:
    return value is None or value is False or isinstance(value, list)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return value is not True
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _is_jid(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_backtrace(value: object) -> bool:
    if value is None or value is False or isinstance(value, list):
        return True
    if not isinstance(value, str):
        return False
    try:
        packed = base64.b64decode(value)
        lines = zlib.decompressobj().decompress(packed, _MOST_INFLATED_BYTES)
        return isinstance(json_text.loads(lines), list)
    except (binascii.Error, zlib.error, ValueError, json_text.MalformedJSON):
        return False


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "tags": _is_tags,
    "jid": _is_jid,
    "created_at": _is_time,
    "enqueued_at": _is_time,
    "failed_at": _is_time,
    "retried_at": _is_time,
    "error_backtrace": _is_backtrace,
}
"""Attribute → whether readers show this value."""
