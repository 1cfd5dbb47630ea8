"""Whether a library of green threads has replaced parts of Python in this process, for all code: `monkey.patch_all()`."""

import _thread
import select
import socket
from typing import Final

_LIBRARIES: Final = frozenset({"gevent", "eventlet"})


def patched_by() -> tuple[str, str] | None:
    """The library, and what of Python it has replaced, such as `socket`; None: nothing that threads are made of."""
    for name, current in (
        ("threading", _thread.start_new_thread),
        ("socket", socket.socket),
        ("select", select.select),
    ):
        library = str(getattr(current, "__module__", "")).partition(".")[0]
        if library in _LIBRARIES:
            return library, name
    return None
