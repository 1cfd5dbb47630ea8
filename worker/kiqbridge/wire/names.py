"""Names that Redis answers with: of queues, processes, leases, classes.

Anybody can add any bytes to a set there, and one member that is no UTF-8 must not end the look at all
the others. So every such name becomes text through `text_of`, which keeps each byte (as a lone
surrogate where it is no UTF-8); a connection sends such a text back as the bytes that it was.
"""


def text_of(raw: bytes) -> str:
    """A name as text; never raises, and equal names stay equal."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The counterpart of `text_of`.

    Raises:
        UnicodeEncodeError: the text holds a surrogate that no byte became.
    """
    return text.encode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    r"""A name for people, bytes that are no UTF-8 as `\xff`; can be written anywhere."""
    return bytes_of(text).decode("utf-8", "backslashreplace")
