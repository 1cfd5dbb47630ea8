"""The form of a function's log lines, that of Powertools' Logger: one JSON object a line."""

import time
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.wire import json_text

LEVELS: Final[Mapping[str, int]] = {
    "DEBUG": 10,
    "INFO": 20,
    "WARNING": 30,
    "ERROR": 40,
    "CRITICAL": 50,
}


def least(level: str) -> int:
    """The number of the least important level that is logged; an unknown one counts as INFO."""
    return LEVELS.get(level.upper(), LEVELS["INFO"])


def timestamp(now: float) -> str:
    """RFC 3339 in UTC with milliseconds, as Lambda's own JSON lines have it; `now` in epoch seconds."""
    seconds = int(now)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{text}.{int((now - seconds) * 1000):03}Z"


def dumps(entry: Mapping[str, Any]) -> bytes:
    """A line's object as JSON."""
    try:
        return json_text.dumps(entry)
    except (TypeError, ValueError):  # a lone surrogate in what somebody sent
        return json_text.dumps(
            {
                key: value if isinstance(value, int | float) else ascii(value)
                for key, value in entry.items()
            }
        )
