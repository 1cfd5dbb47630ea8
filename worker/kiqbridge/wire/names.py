"""Names that Redis answers with: of queues, processes, leases, classes.

Anybody can add any bytes to a set there, and one member that is no UTF-8 must not end the look at all
the others. So every such name becomes text through `text_of`, which keeps each byte (as a lone
surrogate where it is no UTF-8); a connection sends such a text back as the bytes that it was.
"""

import unicodedata
from typing import Final

_FIRST_BYTE: Final = "\udc80"
_LAST_BYTE: Final = "\udcff"
"""What `text_of` makes of bytes that are no UTF-8 lies between them."""


def text_of(raw: bytes) -> str:
    """A name as text; never raises, and equal names stay equal."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The counterpart of `text_of`.

    Raises:
        UnicodeEncodeError: the text holds a surrogate that no byte became.
    """
    return text.encode("utf-8", "surrogateescape")


def glob_of(text: str) -> str:
    """The pattern of Redis that this text alone matches."""
    return "".join(f"\\{sign}" if sign in "*?[]\\" else sign for sign in text)


def shown(text: str) -> str:
    r"""A name for people, bytes that are no UTF-8 as `\xff`; can be written anywhere."""
    return bytes_of(text).decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    r"""A text for one line of a terminal: what does not show itself is written as `\x1b`, `\u202e`, `\xff`.

    Control characters (an escape sequence can move the cursor, or type for the reader), line ends,
    characters that change the direction of writing or have no width, and bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(sign if _is_seen(sign) else _escaped(sign) for sign in text)


def _is_seen(sign: str) -> bool:
    return sign.isprintable() or unicodedata.category(sign) == "Zs"


def _escaped(sign: str) -> str:
    if _FIRST_BYTE <= sign <= _LAST_BYTE:
        return shown(sign)
    return sign.encode("unicode_escape").decode()
