"""A job as an operator sees it: what its text says, read leniently, from any client.

Nothing here raises for what a text holds: what cannot be read is shown as it is (`is_readable`).

`JobText` is the text of a job however long it is. One of up to 1 MB is parsed. Of a longer one, and of one that no
parser takes, the outermost names are read from its bytes (raw_job.py), in time and memory that its length bounds.

Three kinds of waiters may watch for the end of a job: the ledger of a schedule by the attribute `tick`
(tick_mark.py), a lock, a batch or a chain by `flow` (flow_mark.py), a state machine by `task_token` (task_token.py).
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from kiqbridge.wire import json_text
from kiqbridge.wire.active_job import WRAPPERS
from kiqbridge.wire.payload import FLOW, TASK_TOKEN, TICK, read_timestamp
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


_MAILERS: Final = {
    "ActionMailer::DeliveryJob": 3,
    "ActionMailer::Parameterized::DeliveryJob": 3,
    "ActionMailer::MailDeliveryJob": 3,
}
"""Rails' own jobs that send a mail → how many arguments stand before the mail's own."""

MAX_BACKTRACE_BYTES: Final = 1_000_000
"""An inflated backtrace is cut there: a few bytes can inflate to gigabytes."""


class JobRecord(JobText):
    """A job's text and what it says to an operator."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_class} {self.jid}>"

    def delete(self) -> bool:
        """Remove it; whether it was still there. One that lies in no queue or set, such as a running one, stays."""
        return False

    def kill(self) -> bool:
        """Move it to the dead set; whether it was still there. As `delete`."""
        return False

    def retry(self) -> bool:
        """Push it now; whether it was still there. One that lies in no set waits for nothing, or runs."""
        return False

    @property
    def display_class(self) -> str:
        """The class as people know it: of a Rails job its own, of a mail `Mailer#method`; or `display_class`."""
        own = self.item.get("display_class")
        if isinstance(own, str) and own:
            return own
        if self.job_class not in WRAPPERS:
            return self.job_class
        if self._wrapped in _MAILERS and len(self._arguments) > 1:
            return f"{shown(self._arguments[0])}#{shown(self._arguments[1])}"
        return self._wrapped or self.job_class

    @property
    def own_class(self) -> str:
        """The class by which it is paused: of a Rails job its own."""
        return self._wrapped or self.job_class

    @property
    def args(self) -> Sequence[Any]:
        """The arguments as they stand on the wire; empty if they are no list, or were not parsed."""
        args = self.item.get("args")
        return args if isinstance(args, list) else []

    @property
    def display_args(self) -> Sequence[Any]:
        """The arguments as people know them: of a Rails job its own; an encrypted one is not shown."""
        if self.job_class in WRAPPERS:
            return self._arguments[_MAILERS.get(self._wrapped, 0) :]
        if self.item.get("encrypt") and self.args:
            return [*self.args[:-1], "[encrypted data]"]
        return self.args

    @cached_property
    def _active_job(self) -> Mapping[str, Any]:
        first = self.args[0] if self.args else None
        return first if isinstance(first, dict) else {}

    @property
    def _wrapped(self) -> str:
        return shown(self.item.get("wrapped")) or shown(self._active_job.get("job_class"))

    @property
    def _arguments(self) -> Sequence[Any]:
        own = self._active_job.get("arguments")
        return own if isinstance(own, list) else []

    @property
    def tags(self) -> Sequence[str]:
        """Its tags."""
        tags = self.item.get("tags")
        return [shown(tag) for tag in tags] if isinstance(tags, list) else []

    @property
    def bid(self) -> str | None:
        """The batch of Sidekiq Pro that it belongs to."""
        bid = self.item.get("bid")
        return bid if isinstance(bid, str) else None

    @property
    def created_at(self) -> float | None:
        """Epoch seconds."""
        return read_timestamp(self.item.get("created_at"))

    @property
    def enqueued_at(self) -> float | None:
        """Epoch seconds; None while it is scheduled."""
        return read_timestamp(self.item.get("enqueued_at"))

    @property
    def failed_at(self) -> float | None:
        """When it failed first, epoch seconds."""
        return read_timestamp(self.item.get("failed_at"))

    @property
    def retried_at(self) -> float | None:
        """When a retry failed last, epoch seconds."""
        return read_timestamp(self.item.get("retried_at"))

    @property
    def error_class(self) -> str:
        """Of the last failure; empty if it never failed."""
        return shown(self.item.get("error_class"))

    @property
    def error_message(self) -> str:
        """Of the last failure."""
        return shown(self.item.get("error_message"))

    @cached_property
    def error_backtrace(self) -> Sequence[str]:
        """The lines of the last failure's backtrace, innermost first; empty if none was kept (§8.6)."""
        packed = self.item.get("error_backtrace")
        if isinstance(packed, list):  # as Sidekiq wrote it up to version 5
            return [shown(line) for line in packed]
        if not isinstance(packed, str):
            return []
        try:
            raw = zlib.decompressobj().decompress(base64.b64decode(packed), MAX_BACKTRACE_BYTES)
            lines = json.loads(raw)
        except (binascii.Error, zlib.error, ValueError, RecursionError):
            return []
        return [shown(line) for line in lines] if isinstance(lines, list) else []

    def latency(self, now: float) -> float:
        """Seconds since it was enqueued, or created; negative if that is in the future; 0 if it has neither (§22)."""
        since = self.enqueued_at if self.enqueued_at is not None else self.created_at
        return 0.0 if since is None else now - since
