"""Types of arguments that several commands take; what they raise, argparse shows with the usage."""

import argparse
import re
from typing import Final

_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)


def duration(text: str) -> float:
    """Seconds out of `90`, `90s`, `15m`, `2h` or `1d`.

    Raises:
        ArgumentTypeError: it is none of these, or 0.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90, 90s, 15m, 2h or 1d")
    return seconds


def count(text: str) -> int:
    """A whole number above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """A whole number, 0 included.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def amount(text: str) -> float:
    """A number above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def factor(text: str) -> float:
    """A number from 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _number(text)
    if not 1 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return value


def share(text: str) -> float:
    """A part of a whole, from 0 to 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no part of a whole; write 0 to 1, such as 0.25"
        )
    return value


def _number(text: str) -> float:
    """Below every bound if it is no number."""
    try:
        return float(text)
    except ValueError:
        return float("-inf")
