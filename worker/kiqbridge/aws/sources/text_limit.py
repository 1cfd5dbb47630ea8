"""How large a text may be that is parsed, for all sources; a larger one is refused before that.

The limit holds for one invocation, not for the process: a context variable, so that not every reader of a
part of an event has to pass it on.
"""

import contextlib
import contextvars
from collections.abc import Iterator

from kiqbridge.errors import EventError

_LIMIT: contextvars.ContextVar[int] = contextvars.ContextVar("largest_text", default=0)


@contextlib.contextmanager
def texts_limited(most: int) -> Iterator[None]:
    """Within, `check_size` refuses more than so many bytes."""
    token = _LIMIT.set(most)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_size(text: str | bytes) -> None:
    """Refuse a text that is too large to be parsed.

    Raises:
        EventError: it has more bytes, or characters, than allowed.
    """
    most = _LIMIT.get()
    if most and len(text) > most:
        raise EventError(
            f"text: {len(text)} bytes are more than the {most} of KIQBRIDGE_MAX_EVENT_BYTES; put the data into "
            "S3 and send its key"
        )
