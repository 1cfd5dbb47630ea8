"""The payload of a job's text as far as those who wait for the job's end must know it.

A schedule waits for it by the attribute `tick` (tick_mark.py), a lock, a batch or a chain by `flow` (flow_mark.py), a
state machine by `task_token` (task_token.py).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.wire import json_text
from kiqbridge.wire.payload import FLOW, TASK_TOKEN, TICK
from kiqbridge.wire.raw_job import jid_in, outline, retry_count_in

_MARKS: Final = tuple(f'"{name}"'.encode() for name in (TICK, FLOW, TASK_TOKEN))
_MAX_PARSED_BYTES: Final = 100_000
"""A longer text is looked at by its bytes alone: it may be one that kills its parser."""
_MAX_MARK_BYTES: Final = 100_000
_NAMES: Final = (b"class", b"wrapped", b"queue", TASK_TOKEN.encode())


def marked_payload(text: bytes) -> Mapping[str, Any]:
    """The payload of a job for whose end somebody may wait, in time and memory that its length bounds.

    Of a text above 100,000 bytes only `jid`, `class`, `wrapped`, `queue`, `retry_count`, `tick`, `flow` and
    `task_token`. Empty if nobody waits, or it is no object.
    """
    if not any(mark in text for mark in _MARKS):
        return {}
    if len(text) > _MAX_PARSED_BYTES:
        return _outer(text)
    try:
        payload = json_text.loads(text)
    except json_text.MalformedJSON:
        return {}
    return payload if isinstance(payload, dict) else {}


def _outer(text: bytes) -> Mapping[str, Any]:
    found = outline(text)
    if found is None:
        return {}
    payload: dict[str, Any] = {
        name.decode(): found.strings[name].decode(errors="replace")
        for name in _NAMES
        if name in found.strings
    }
    payload["jid"] = (jid_in(text) or b"").decode()
    payload["retry_count"] = retry_count_in(text)
    for name in (TICK, FLOW):
        if found.others.get(name.encode()) == b"{":
            payload[name] = _last_object(name, text)
    return payload


def _last_object(name: str, text: bytes) -> object:
    """The last one: clients write it behind the arguments, which may hold those of other jobs."""
    begin = text.rfind(f'"{name}"'.encode()) + len(name) + 2
    value = text[begin : begin + _MAX_MARK_BYTES].decode(errors="replace").lstrip(" \t\r\n:")
    try:
        return json.JSONDecoder().raw_decode(value)[0]
    except (ValueError, RecursionError):
        return None
