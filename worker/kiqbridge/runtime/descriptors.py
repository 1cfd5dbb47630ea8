"""Noticing that a job has closed file descriptors that were not its own.

`os.closerange(3, 1024)`, or one `os.close` too many, takes descriptors away from everybody in the
process. The numbers are given to whatever is opened next, so who still holds the old one writes into a
stranger's connection: a claim of one thread would be answered to another, and jobs that no thread saw
would be acknowledged. So before each use the engine compares what its descriptor leads to with what it
led to when it was opened. A process in which they differ cannot be put right, as libraries hold
descriptors too: it gives its jobs back over a new connection, and ends with a status.

Only workers watch (`watch`); elsewhere nothing is compared.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from kiqbridge.runtime import job_forks

is_watching = False
"""Whether somebody has asked to be called; looked at before each use, so it is no function."""

_on_loss: Callable[[], object] = lambda: None  # noqa: E731 - replaced by `watch`
_first = threading.Lock()
_ending: int | None = None


_COOKIE = (socket.SOL_SOCKET, 57, 8) if sys.platform == "linux" else None
"""For getsockopt: SO_COOKIE of asm-generic/socket.h, the number that Linux gives to each socket once."""


class HasHandle(Protocol):
    """A socket, or a file."""

    def fileno(self) -> int:
        """Its descriptor, -1 when it was closed."""


class Descriptor:
    """What somebody has open, and what it led to then."""

    __slots__ = ("_cookie", "_node", "opened")

    def __init__(self, opened: HasHandle | int) -> None:
        self.opened = opened
        self._cookie: Callable[[int, int, int], bytes] | None = None
        self._node = self._look()
        if _COOKIE is not None and isinstance(opened, socket.socket):
            with contextlib.suppress(OSError):
                self._node = opened.getsockopt(*_COOKIE)
                self._cookie = opened.getsockopt

    def check(self) -> None:
        """Does not return when the descriptor leads elsewhere now, or nowhere, or the process ends."""
        if _ending is not None and _ending != threading.get_ident():
            _wait_for_the_end()
        # What its owner has closed is no loss, nor what its owner closes during this look: a socket has
        # no number any more before the kernel closes it, so the number is read once more.
        if self._handle() >= 0 and self._look() != self._node and self._handle() >= 0:
            lost()

    def _handle(self) -> int:
        return self.opened if isinstance(self.opened, int) else self.opened.fileno()

    def _look(self) -> Any:
        try:
            if self._cookie is not None and _COOKIE is not None:
                return self._cookie(*_COOKIE)  # unlike fstat, it keeps the interpreter lock
            found = os.fstat(self._handle())
        except OSError:
            return None
        return found.st_dev, found.st_ino


def watch(on_loss: Callable[[], object]) -> None:
    """From now on compare, and call this, which is to end the process, at the first difference."""
    global is_watching, _on_loss  # noqa: PLW0603 - one process has one set of descriptors
    _on_loss = on_loss
    is_watching = True


def lost() -> NoReturn:
    """A descriptor leads elsewhere: the process ends; only the thread that found it goes on for that."""
    global _ending  # noqa: PLW0603 - as in watch
    if _first.acquire(blocking=False):
        _ending = threading.get_ident()
        _on_loss()
    _wait_for_the_end()


def _wait_for_the_end() -> NoReturn:
    while True:
        time.sleep(60)


def _forget() -> None:
    """In a child that a job forks: what it closes is its own."""
    global is_watching  # noqa: PLW0603 - as in watch
    is_watching = False


job_forks.on_child(_forget)
