"""The text of a job, read leniently: whatever lies in Redis, from any client, and however long it is.

A text of up to 1 MB is parsed. Of a longer one, and of one that no parser takes, the outermost names are read from
its bytes (raw_job.py), in time and memory that its length bounds.

Three kinds of waiters may watch for the end of a job: the ledger of a schedule by the attribute `tick`
(tick_mark.py), a lock, a batch or a chain by `flow` (flow_mark.py), a state machine by `task_token` (task_token.py).
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from kiqbridge.wire import json_text
from kiqbridge.wire.payload import FLOW, TASK_TOKEN, TICK
from kiqbridge.wire.raw_job import MAX_PARSED_BYTES, jid_in, outline, retry_count_in

WATCHERS: Final = (TICK, FLOW, TASK_TOKEN)
"""The attributes of a payload by which somebody watches for the job's end."""

_MARKS: Final = tuple(f'"{name}"'.encode() for name in WATCHERS)
_MAX_MARK_BYTES: Final = 100_000


class JobText:
    """A job's text and what it says. Nothing here raises for what the text holds.

    Args:
        text: as it lies in Redis.
        queue: the queue it was found in; else the one that it names.

    Attributes:
        text: as it lies in Redis.
    """

    def __init__(self, text: bytes, *, queue: str | None = None) -> None:
        self.text = text
        self._queue = queue

    @cached_property
    def _parsed(self) -> dict[str, Any] | None:
        if len(self.text) > MAX_PARSED_BYTES:
            return None
        try:
            item = json_text.loads(self.text)
        except json_text.MalformedJSON:
            return None
        return item if isinstance(item, dict) else None

    @property
    def is_readable(self) -> bool:
        """Whether its text is an object, of a length that is parsed (1 MB)."""
        return self._parsed is not None

    @cached_property
    def item(self) -> Mapping[str, Any]:
        """The payload. Of a text that is not parsed: its outermost texts, `retry_count`, `tick` and `flow`.

        Empty if the text is no object.
        """
        if self._parsed is not None:
            return self._parsed
        found = outline(self.text)
        if found is None:
            return {}
        payload: dict[str, Any] = {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in found.strings.items()
        }
        for name in (TICK, FLOW):
            if found.others.get(name.encode()) == b"{":
                payload[name] = _last_object(name, self.text)
        if (count := retry_count_in(self.text)) is not None:
            payload["retry_count"] = count
        return payload

    @property
    def jid(self) -> str:
        """The job's id; empty if it has none."""
        jid = self.item.get("jid")
        if isinstance(jid, str):
            return jid
        found = jid_in(self.text)
        return found.decode() if found else ""

    @property
    def job_class(self) -> str:
        """The class to perform it: `class` as it stands on the wire; empty if it has none."""
        return shown(self.item.get("class"))

    @property
    def queue(self) -> str:
        """The queue it lies in, or goes back to."""
        return self._queue or shown(self.item.get("queue")) or "default"

    @property
    def retry_count(self) -> int | None:
        """0 after the first failure; None if it never failed."""
        count = self.item.get("retry_count")
        return count if type(count) is int else None


def is_watched(payload: Mapping[str, Any]) -> bool:
    """Whether anybody watches for the end of the job with this payload."""
    return TICK in payload or FLOW in payload or TASK_TOKEN in payload


def watched_payload(text: bytes) -> Mapping[str, Any]:
    """The payload of a job whose end is watched for; empty if it is not. See `JobText.item`."""
    return JobText(text).item if any(mark in text for mark in _MARKS) else {}


def shown(value: object) -> str:
    """What a text should be, as people see it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _last_object(name: str, text: bytes) -> object:
    """The last one: clients write it behind the arguments, which may hold those of other jobs."""
    begin = text.rfind(f'"{name}"'.encode()) + len(name) + 2
    value = text[begin : begin + _MAX_MARK_BYTES].decode(errors="replace").lstrip(" \t\r\n:")
    try:
        return json.JSONDecoder().raw_decode(value)[0]
    except (ValueError, RecursionError):
        return None
