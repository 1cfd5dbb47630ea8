"""Keeping the engine's threads running: what escapes a thread's loop is logged, and the loop goes on.

Every thread that is to live as long as the process runs its loop through `keep_running`. So no error,
whatever its class, ends it: not a MemoryError between two lines of ours, not the SystemExit of a
handler that calls `sys.exit()`. `kept()` lists these threads for whoever watches them.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
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
    """

    name: str
    ident: int
    since: float
    escapes: int = 0
    escaped_at: float | None = None
    last_error: str = ""


_kept: dict[int, Kept] = {}


def kept() -> list[Kept]:
    """The threads of this process that `keep_running` keeps now."""
    return list(_kept.values())


def keep_running(
    name: str,
    loop: Callable[[], object],
    *,
    is_ending: Callable[[], bool],
    settle: Callable[[], object] | None = None,
    wait: Callable[[float], object] = time.sleep,
    pause_s: float = RESTART_S,
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
    """
    ident = threading.get_ident()
    state = _kept[ident] = Kept(name, ident, time.monotonic())
    try:
        while True:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - no error of any kind ends these threads
                if _escaped(state, error, is_ending, settle):
                    return
            else:
                return
            user_code.call(wait, pause_s, log=logger, failed="a pause was cut short")
    finally:
        _kept.pop(ident, None)


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
