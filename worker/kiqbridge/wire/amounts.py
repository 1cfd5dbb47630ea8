"""Times and counts as people read them: instants, lengths of time, how many of something."""

from datetime import UTC, datetime
from typing import Final

_MINUTE_S: Final = 60


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


def count_text(count: int, noun: str) -> str:
    """`1 firing`, `2,000 firings`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
