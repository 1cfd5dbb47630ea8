"""Times and counts as people read them: instants, lengths of time, how many of something."""

import re
from datetime import UTC, datetime
from typing import Final

_MINUTE_S: Final = 60
_BYTES_STEP: Final = 1000
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)


def span_of(text: str) -> float | None:
    """Seconds out of `90`, `90s`, `15m`, `2h` or `1d`; None: it is none of these."""
    match = _SPAN.fullmatch(text)
    return float(match[1]) * _UNITS_S[match[2]] if match else None


def instant_text(moment: datetime | float) -> str:
    """`2026-03-28T00:00:00Z`, of an aware time or of epoch seconds."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def span_text(seconds: float) -> str:
    """A length of time in its largest unit, rounded: `45 s`, `12 min`, `3 h`, `5 days`."""
    seconds = abs(seconds)
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86_400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"


def took_text(seconds: float) -> str:
    """How long something took: `250 ms`, `3.4 s`, else as `span_text`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else span_text(seconds)  # noqa: PLR2004 - one digit more, where it matters


def size_text(count: float) -> str:
    """Bytes: `999 B`, `1.2 kB`, `3.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < _BYTES_STEP or unit == "GB":
            break
        count /= _BYTES_STEP
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def waited_text(latency_s: float) -> str:
    """For how long a job has waited: `12 min`; `in 5 min` if its `enqueued_at` is in the future."""
    return f"in {span_text(latency_s)}" if is_ahead(latency_s) else span_text(max(latency_s, 0.0))


def oldest_text(latency_s: float) -> str:
    """The age of the oldest job as a part of a sentence: `the oldest for 12 min`, `the oldest is enqueued in 5 min`."""
    return f"the oldest {'is enqueued' if is_ahead(latency_s) else 'for'} {waited_text(latency_s)}"


def is_ahead(latency_s: float) -> bool:
    """Whether `enqueued_at` is in the future by a second or more; less is the error of clocks."""
    return latency_s <= -1


def count_text(count: int, noun: str) -> str:
    """`1 firing`, `2,000 firings`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
