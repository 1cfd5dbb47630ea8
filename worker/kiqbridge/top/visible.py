r"""Texts of anybody, for a terminal: nothing in them moves the cursor, changes a colour or turns the direction.

Control characters, bidirectional and other invisible marks, and bytes that are no UTF-8 are shown as `\x1b`,
`\u202e`, `\xff`. The results are one line; they go into `rich.text.Text`, which reads no markup.
"""

import math
from datetime import UTC, datetime
from typing import Final

from kiqbridge import redaction
from kiqbridge.api import JobRecord
from kiqbridge.wire import json_text

MAX_CELL: Final = 300
"""Characters of a text in a table; no terminal is as wide."""

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BYTE_BASE, _BYTES = 0xDC00, range(0xDC80, 0xDD00)
_MAX_YEAR_S: Final = 253_402_300_799
"""The last second that has a calendar date in Python."""


def visible(text: str, most: int | None = None) -> str:
    r"""A text as one line that a terminal can only show.

    Args:
        text: of anybody.
        most: characters of the text that are looked at; an ellipsis stands for the rest.
    """
    if most is not None and len(text) > most:
        return visible(text[: most - 1]) + "…"
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    code = ord(sign)
    if sign.isspace() and code not in range(0x20) and sign not in "\x85\u2028\u2029":
        return " "  # a no-break space and its like
    if code in _BYTES:  # a byte that was no UTF-8
        return f"\\x{code - _BYTE_BASE:02x}"
    if code < 0x100:  # noqa: PLR2004 - what two digits write
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - four digits


def shown_args(job: JobRecord, most: int = MAX_CELL) -> str:
    """The arguments on one line, those with secret names hidden."""
    if not job.is_readable:
        return visible(job.text[:most].decode("utf-8", "surrogateescape"), most)
    args = redaction.current().arguments(list(job.display_args))
    return ", ".join(visible(as_json(each), most) for each in args[:most])[:most]


def as_json(value: object) -> str:
    """A value as JSON; what has no JSON text as Python writes it."""
    try:
        return json_text.dumps(value).decode("utf-8", "surrogateescape")
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def shown_error(job: JobRecord, most: int = MAX_CELL) -> str:
    """Class and message of the last failure on one line."""
    message = redaction.current().text(job.error_message[: 4 * most])
    return visible(f"{job.error_class}: {message}" if message else job.error_class, most)


def duration(seconds: float) -> str:
    """Such as `4.2 s`, `3 min`, `5 h 2 min`, `12 d 4 h`."""
    if not math.isfinite(seconds):
        return "-"
    if seconds < 9.95:  # noqa: PLR2004 - below ten seconds a tenth is worth its place
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < _DAY_S:
        return _two(whole, _HOUR_S, "h", _MINUTE_S, "min")
    return _two(whole, _DAY_S, "d", _HOUR_S, "h")


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large} {large_name}" + (f" {rest} {small_name}" if rest else "")


def relative(moment: float | None, now: float) -> str:
    """`in 4 min`, `3 s ago`, or `-` where there is no moment; epoch seconds."""
    if not moment or not math.isfinite(moment):
        return "-"
    away = moment - now
    return f"in {duration(away)}" if away >= 0 else f"{duration(-away)} ago"


def absolute(moment: float | None) -> str:
    """In UTC and in the zone of this machine; epoch seconds."""
    if not moment or not math.isfinite(moment) or not 0 < moment < _MAX_YEAR_S:
        return "-" if not moment else str(moment)
    at = datetime.fromtimestamp(moment, UTC)
    here = at.astimezone()
    text = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return text if not here.utcoffset() else f"{text} ({here:%Y-%m-%d %H:%M:%S %Z})"


def size(kilobytes: int) -> str:
    """Memory, such as `34 MB`."""
    return f"{kilobytes // 1024:,} MB" if kilobytes else "-"
