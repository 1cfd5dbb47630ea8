"""What is logged once: once by its kind, and not by a text in which a number or a random name may be another each time."""

import re
from typing import Final

_VARYING: Final = re.compile(r"\w*\d[\w.:-]*")


def kind_of(error: BaseException) -> str:
    """The kind of an error: its class, and its number or else its text without what varies."""
    number = error.errno if isinstance(error, OSError) else None
    return f"{type(error).__qualname__} {number or without_numbers(str(error))}"


def without_numbers(text: str) -> str:
    """The text without the words that have a digit in them."""
    return _VARYING.sub("…", text)
