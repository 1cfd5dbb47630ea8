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
