"""Keeping the engine's threads and event loops running, and waiting for calls that may never return.

1. Every thread that is to live as long as the process runs its loop through `keep_running`, most of them
   as a `Role` (role.py): an error
   that escapes the loop is logged, and the loop is called again. So no error, whatever its class, ends
   the thread: not a MemoryError between two lines of ours, not the SystemExit of a handler that calls
   `sys.exit()`. `kept()` lists these threads for those who watch them.
2. `keep_loop_running` does the same for the event loop of `async def` jobs: a background task that calls
   `sys.exit()`, or a job that calls `loop.stop()`, ends `run_forever` and leaves all other tasks as they
   are, so the same loop is entered again and they continue.
3. A call that may never return runs on a thread of its own (`BoundedCall`), and is waited for with a
   bound.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kiqbridge.runtime import job_forks, user_code
from kiqbridge.runtime.records import dataclass

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

RESTART_S = 1.0
"""Pause before a loop is called again: the cause of the error may still be there."""

MAX_LOOP_FAILURES = 3
"""An event loop that fails so often in a row without running anything counts as broken."""

CANNOT_START: Final = (RuntimeError, MemoryError)
"""What `Thread.start` raises when the system has no room for another thread."""


class NoThread(RuntimeError):  # noqa: N818 - says what happened
    """The system has no room for another thread; what it was for has not begun."""


def started(thread: threading.Thread) -> threading.Thread:
    """This thread, once it has started.

    Raises:
        NoThread: it cannot start.
    """
    try:
        thread.start()
    except CANNOT_START as error:
        raise NoThread(str(error) or type(error).__name__) from error
    return thread


LoopReport = Callable[[str, BaseException | None], object]
"""(what ended the event loop, the error if there was one); the loop continues after it."""


@dataclass(slots=True, eq=False)
class Kept:
    """One thread that `keep_running` keeps; only that thread writes here.

    Attributes:
        name: as in the log.
        ident: `threading.get_ident()` of the thread.
        since: when it began, on `time.monotonic`.
        performs_jobs: it may stay in users' code for any time.
        beat_at: when it last began a round of its loop, on `time.monotonic`; None = it does not call
            `beat`, and is not watched.
        is_resting: it waits for work or for a point in time, and may do so for any time.
    """

    name: str
    ident: int
    since: float
    performs_jobs: bool = False
    beat_at: float | None = None
    is_resting: bool = False


_kept: dict[int, Kept] = {}


def kept() -> list[Kept]:
    """The threads of this process that are being watched now."""
    return list(_kept.values())


@contextlib.contextmanager
def watched(name: str, *, performs_jobs: bool = False) -> Iterator[Kept]:
    """List the calling thread in `kept` while the block runs; `keep_running` does so itself."""
    ident = threading.get_ident()
    state = _kept[ident] = Kept(name, ident, time.monotonic(), performs_jobs=performs_jobs)
    try:
        yield state
    finally:
        _kept.pop(ident, None)


def beat() -> None:
    """Record that the calling thread makes progress: it begins a round of its loop, or tries again."""
    state = _kept.get(threading.get_ident())
    if state is not None:
        state.is_resting = False
        state.beat_at = time.monotonic()


def rest() -> None:
    """Record that the calling thread is about to wait, for any time, until its next `beat`."""
    state = _kept.get(threading.get_ident())
    if state is not None:
        state.is_resting = True


def keep_running(
    name: str,
    loop: Callable[[], object],
    *,
    is_ending: Callable[[], bool],
    wait: Callable[[float], object] = time.sleep,
    pause_s: float = RESTART_S,
    performs_jobs: bool = False,
) -> None:
    """Run a thread's loop until it returns; call it again whenever an error escapes it.

    The thread ends in two cases: `loop` returns, or an error escapes it while `is_ending()` is true.
    Otherwise the error is logged with its traceback, the thread pauses, and `loop` is called again, so
    it must be able to continue from the state that it left. A loop handles
    the errors that it expects (Redis is away) itself; this function handles the others.

    Args:
        name: for the log and for `kept`.
        loop: the thread's work.
        is_ending: whether the thread is to end.
        wait: waits for that many seconds; a stopping event's `wait` shortens the pause.
        pause_s: seconds between an error and the next call.
        performs_jobs: it runs jobs, which may take any time (liveness.py). Other threads count as stuck
            also while users' code blocks them.
    """
    with watched(name, performs_jobs=performs_jobs) as state:
        while True:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - no error of any kind ends these threads
                if _escaped(state, error, is_ending):
                    return
            else:
                return
            user_code.call(wait, pause_s, log=logger, failed="a pause was cut short")


def _escaped(state: Kept, error: BaseException, is_ending: Callable[[], bool]) -> bool:
    """Record and log the error that escaped; return whether the thread ends now."""
    is_over = is_ending()
    user_code.log_error(
        logger,
        error,
        "an error ended the loop of thread %s; %s",
        state.name,
        "the thread was about to end" if is_over else "the loop is started again",
    )
    return is_over


def keep_loop_running(
    loop: "asyncio.AbstractEventLoop", *, is_over: Callable[[], bool], report: LoopReport
) -> str:
    """Run an event loop on this thread until `is_over()`, which is asked whenever it stops.

    Returns "" then, or why it cannot continue: it was closed, or its selector fails again and again.
    """
    failures = 0
    progress: list[bool] = []
    while True:
        progress.clear()
        try:
            loop.call_soon(progress.append, True)
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            if job_forks.in_child:
                job_forks.end(error)
            if is_over():
                return ""
            report(f"{type(error).__name__} escaped a background task or a callback", error)
        except BaseException as error:  # noqa: BLE001 - the loop's own: the next round shows whether it can continue
            if is_over():
                return ""
            failures = 0 if progress else failures + 1
            what = f"it failed with {type(error).__name__}: {error}"
            if failures >= MAX_LOOP_FAILURES:
                return what
            report(what, error)
        else:
            if is_over():
                return ""
            report("something called `loop.stop()`", None)


WAIT_SLICE_S = 0.5


class BoundedCall:
    """A call that was started on a thread of its own, because it may never return.

    Args:
        name: of the thread.
        call: it handles its errors itself.
    """

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self._call = call
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except CANNOT_START:
            self._run()

    def wait(self, within_s: float) -> bool:
        """Wait for at most that many seconds until it has ended; return whether it has.

        In slices: a signal that the kernel delivers to another thread does not end the main thread's
        wait, and Python calls its handler only when the main thread goes on.
        """
        until = time.monotonic() + within_s
        while not self._ended.wait(min(seconds_until(until), WAIT_SLICE_S)):
            if time.monotonic() >= until:
                return self._ended.is_set()
        return True

    def _run(self) -> None:
        try:
            self._call()
        finally:
            self._ended.set()


def seconds_until(at: float) -> float:
    """Seconds until an instant on `time.monotonic`; 0.0 = it has passed."""
    return max(at - time.monotonic(), 0.0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.clear)  # a child has none of these threads
