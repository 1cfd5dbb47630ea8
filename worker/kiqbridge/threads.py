"""Keeping the engine's threads running: what escapes a thread's loop is logged, and the loop goes on.

Every thread that is to live as long as the process runs its loop through `keep_running`. So no error,
whatever its class, ends it: not a MemoryError between two lines of ours, not the SystemExit of a
handler that calls `sys.exit()`. `kept()` lists these threads for whoever watches them.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kiqbridge import user_code

logger = logging.getLogger(__name__)

RESTART_S = 1.0
"""Pause before a loop is begun again: what made it end may still be there."""


@dataclass(slots=True, eq=False)
class Kept:
    """One thread that `keep_running` keeps; only that thread writes here.

    Attributes:
        name: as in the log.
        ident: `threading.get_ident()` of the thread.
        since: when it began, on `time.monotonic`.
        escapes: how often its loop ended with an error and was begun again.
        escaped_at: when it last did, on `time.monotonic`; None = never.
        last_error: class of that error, or "".
        performs_jobs: it may stay in code of users for as long as that takes.
        beat_at: when it last began a round of its loop, on `time.monotonic`; None = it notes
            none, and is not watched.
        is_resting: it waits for work, or for its time, and may do so for any time.
    """

    name: str
    ident: int
    since: float
    escapes: int = 0
    escaped_at: float | None = None
    last_error: str = ""
    performs_jobs: bool = False
    beat_at: float | None = None
    is_resting: bool = False


_kept: dict[int, Kept] = {}


def kept() -> list[Kept]:
    """The threads of this process that are to be watched now."""
    return list(_kept.values())


@contextlib.contextmanager
def watched(name: str, *, performs_jobs: bool = False) -> Iterator[Kept]:
    """List the calling thread in `kept` for the length of the block; `keep_running` does so itself."""
    ident = threading.get_ident()
    state = _kept[ident] = Kept(name, ident, time.monotonic(), performs_jobs=performs_jobs)
    try:
        yield state
    finally:
        _kept.pop(ident, None)


def beat() -> None:
    """Note that the calling thread gets on: it begins a round of its loop, or tries again."""
    state = _kept.get(threading.get_ident())
    if state is not None:
        state.is_resting = False
        state.beat_at = time.monotonic()


def rest() -> None:
    """Note that the calling thread is about to wait, up to its next `beat`, for as long as it takes."""
    state = _kept.get(threading.get_ident())
    if state is not None:
        state.is_resting = True


def keep_running(
    name: str,
    loop: Callable[[], object],
    *,
    is_ending: Callable[[], bool],
    settle: Callable[[], object] | None = None,
    wait: Callable[[float], object] = time.sleep,
    pause_s: float = RESTART_S,
    performs_jobs: bool = False,
) -> None:
    """Run a thread's loop until it returns; begin it again whenever an error escapes it.

    This is the whole body of a thread that lives as long as the process:

        def _run(self) -> None:
            keep_running(
                "poller",
                self._poll,                       # loops until self._stopping is set, then returns
                is_ending=self._stopping.is_set,
                settle=self._let_go,              # optional
                wait=self._stopping.wait,
            )

    The thread ends in two cases: `loop` returns, or an error escapes it while `is_ending()` is true.
    Otherwise the error is logged with its traceback, `settle` is called, the thread pauses, and
    `loop` is called again, so it must begin with a state that it can go on from. Errors that a loop
    expects (Redis is away) are the loop's own matter; here come those that nobody expected.

    Args:
        name: for the log and for `kept`.
        loop: the thread's work.
        is_ending: whether the thread shall end.
        settle: gives back, or puts in order, what the loop held when it was left; what it raises is
            logged. Called before the pause, and also when the thread is ending.
        wait: waits for so many seconds; a stopping event's `wait` shortens the pause.
        pause_s: seconds between an error and the next call.
        performs_jobs: it runs jobs, which may take any time (liveness.py). Other threads are stuck
            also while code of a user holds them up.
    """
    with watched(name, performs_jobs=performs_jobs) as state:
        while True:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - no error of any kind ends these threads
                if _escaped(state, error, is_ending, settle):
                    return
            else:
                return
            user_code.call(wait, pause_s, log=logger, failed="a pause was cut short")


def _escaped(
    state: Kept,
    error: BaseException,
    is_ending: Callable[[], bool],
    settle: Callable[[], object] | None,
) -> bool:
    """Record and log what escaped; whether the thread ends now."""
    state.escapes += 1
    state.escaped_at = time.monotonic()
    state.last_error = type(error).__qualname__
    is_over = is_ending()
    user_code.log_error(
        logger,
        error,
        "the thread %s left its loop with an error; %s",
        state.name,
        "it was about to end" if is_over else "it begins its loop again",
    )
    if settle is not None:
        user_code.call(settle, log=logger, failed=f"settling what {state.name} held failed")
    return is_over


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.clear)  # a child has none of these threads
