"""Pausing the garbage collector while the stacks of all threads are taken.

`sys._current_frames` holds a lock of the interpreter and makes objects, so the collector may run in it.
What it collects may need that very lock: a `threading.local`, an ended thread. Then the thread waits for
itself for ever, with the interpreter lock held: no thread of the process runs again (CPython 3.11).
"""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from kiqbridge.runtime import job_forks

T = TypeVar("T")

_alone = threading.Lock()
_is_paused = False


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's number."""
    return without_collection(sys._current_frames)  # noqa: SLF001 - the only way to see other threads' stacks


def without_collection(act: Callable[[], T]) -> T:
    """What `act` returns, called while nothing is collected; it must be short."""
    global _is_paused  # noqa: PLW0603 - the collector is one for the process
    with _alone:
        _is_paused = gc.isenabled()
        try:
            gc.disable()  # in here, so that no error of another thread leaves the collector off
            return act()
        finally:
            if _is_paused:
                gc.enable()
            _is_paused = False


def _renew() -> None:
    """In a child that a job forks while another thread is in `without_collection`."""
    global _alone, _is_paused  # noqa: PLW0603 - as above
    _alone = threading.Lock()
    if _is_paused:
        gc.enable()
    _is_paused = False


job_forks.on_child(_renew)
