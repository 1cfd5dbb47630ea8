"""A job as an operator sees it: what its text says, read leniently, whoever wrote it.

Nothing here raises for what a text holds: what cannot be read is shown as it is (`is_readable`).
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from kiqbridge.wire import json_text
from kiqbridge.wire.payload import read_timestamp
from kiqbridge.wire.raw_job import MAX_PARSED_BYTES, jid_in, outline

ACTIVE_JOB_WRAPPERS: Final = frozenset(
    {"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"}
)
_MAILERS: Final = {
    "ActionMailer::DeliveryJob": 3,
    "ActionMailer::Parameterized::DeliveryJob": 3,
    "ActionMailer::MailDeliveryJob": 3,
}
"""Rails' own jobs that send a mail → how many arguments stand before the mail's own."""

MAX_BACKTRACE_BYTES: Final = 1_000_000
"""An inflated backtrace is cut there: a few bytes can inflate to gigabytes."""


class JobRecord:
    """A job's text and what it says.

    Args:
        text: as it lies in Redis.
        queue: the queue it was found in; else the one that it names.

    Attributes:
        text: as it lies in Redis.
    """

    def __init__(self, text: bytes, *, queue: str | None = None) -> None:
        self.text = text
        self._queue = queue

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_class} {self.jid}>"

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
        """The payload; of a text that is not parsed its outermost texts only, empty if it is no object."""
        if self._parsed is not None:
            return self._parsed
        found = outline(self.text)
        if found is None:
            return {}
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in found.strings.items()
        }

    @property
    def jid(self) -> str:
        """Its id; empty if it has none."""
        jid = self.item.get("jid")
        if isinstance(jid, str):
            return jid
        found = jid_in(self.text)
        return found.decode() if found else ""

    @property
    def job_class(self) -> str:
        """The class to perform it: `class` as it stands on the wire; empty if it has none."""
        return _text(self.item.get("class"))

    @property
    def display_class(self) -> str:
        """The class as people know it: of a Rails job its own, of a mail `Mailer#method`; or `display_class`."""
        own = self.item.get("display_class")
        if isinstance(own, str) and own:
            return own
        if self.job_class not in ACTIVE_JOB_WRAPPERS:
            return self.job_class
        wrapped = _text(self.item.get("wrapped")) or _text(self._active_job.get("job_class"))
        if wrapped in _MAILERS:
            mailer = self._active_job.get("arguments")
            if isinstance(mailer, list) and len(mailer) > 1:
                return f"{_text(mailer[0])}#{_text(mailer[1])}"
        return wrapped or self.job_class

    @property
    def args(self) -> Sequence[Any]:
        """The arguments as they stand on the wire; empty if they are no list, or were not parsed."""
        args = self.item.get("args")
        return args if isinstance(args, list) else []

    @property
    def display_args(self) -> Sequence[Any]:
        """The arguments as people know them: of a Rails job its own; an encrypted one is not shown."""
        if self.job_class in ACTIVE_JOB_WRAPPERS:
            own = self._active_job.get("arguments")
            args = own if isinstance(own, list) else []
            wrapped = _text(self.item.get("wrapped")) or _text(self._active_job.get("job_class"))
            return args[_MAILERS.get(wrapped, 0) :]
        if self.item.get("encrypt") and self.args:
            return [*self.args[:-1], "[encrypted data]"]
        return self.args

    @cached_property
    def _active_job(self) -> Mapping[str, Any]:
        first = self.args[0] if self.args else None
        return first if isinstance(first, dict) else {}

    @property
    def queue(self) -> str:
        """The queue it lies in, or goes back to."""
        return self._queue or _text(self.item.get("queue")) or "default"

    @property
    def tags(self) -> Sequence[str]:
        """Its tags."""
        tags = self.item.get("tags")
        return [_text(tag) for tag in tags] if isinstance(tags, list) else []

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
    def retry_count(self) -> int | None:
        """0 after the first failure; None if it never failed."""
        count = self.item.get("retry_count")
        return count if type(count) is int else None

    @property
    def error_class(self) -> str:
        """Of the last failure; empty if it never failed."""
        return _text(self.item.get("error_class"))

    @property
    def error_message(self) -> str:
        """Of the last failure."""
        return _text(self.item.get("error_message"))

    @cached_property
    def error_backtrace(self) -> Sequence[str]:
        """The lines of the last failure's backtrace, innermost first; empty if none was kept (§8.6)."""
        packed = self.item.get("error_backtrace")
        if isinstance(packed, list):  # as Sidekiq wrote it up to version 5
            return [_text(line) for line in packed]
        if not isinstance(packed, str):
            return []
        try:
            raw = zlib.decompressobj().decompress(base64.b64decode(packed), MAX_BACKTRACE_BYTES)
            lines = json.loads(raw)
        except (binascii.Error, zlib.error, ValueError, RecursionError):
            return []
        return [_text(line) for line in lines] if isinstance(lines, list) else []

    def latency(self, now: float) -> float:
        """Seconds since it was enqueued, or created; negative if that is in the future; 0 if it has neither (§22)."""
        since = self.enqueued_at if self.enqueued_at is not None else self.created_at
        return 0.0 if since is None else now - since


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
