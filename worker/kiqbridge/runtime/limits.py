"""Ending jobs that run longer than their `timeout_s`, or than their worker, where they run on threads.

An error is raised in the job's thread, only where that is safe (interruption.py); where it is not, the
thread is looked at again after 1 ms, then after more, up to 20 ms. A thread that waits in C (a query
without a timeout, a computation in a library) notices it only when it comes back: what must end at
all costs belongs in the process pool.
"""

import heapq
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.interruption import PENDING, Interruption, forget
from kiqbridge.runtime.origins import trust
from kiqbridge.runtime.role import LazyRole

T = TypeVar("T")

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.020
"""Between two looks at a thread where the error could not be raised."""

FORGET_S = 0.5
"""How often one that was raised is looked at, to forget it once what it was to end has ended."""

_SWEEP_AT = 1_000


class _Limit(Interruption):
    """One running job; a context manager around it."""

    __slots__ = ("_seconds", "_timekeeper")

    def __init__(self, timekeeper: "Timekeeper", seconds: float) -> None:
        super().__init__(threading.get_ident(), JobTimeout)
        self._timekeeper = timekeeper
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._timekeeper.raise_after(self._seconds, self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.end()
        if self.is_raised and isinstance(error, JobTimeout) and not error.args:
            error.args = (f"took longer than its timeout_s of {self._seconds:g} s",)


async def limited(running: Awaitable[T], seconds: float | None) -> T:
    """What is awaited for `seconds` at most; None = without a limit.

    Raises:
        JobTimeout: it took longer, and was cancelled.
    """
    import asyncio  # noqa: PLC0415 - loaded already: this runs in an event loop

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await running
    except TimeoutError as error:
        if limit.expired():
            raise JobTimeout(f"took longer than its timeout_s of {seconds:g} s") from error
        raise


class Timekeeper:
    """The thread that raises what is due in others.

    In a worker it begins with the process if any job has a limit, else with the first call. A thread of jobs should not
    have to start it: in CPython 3.11 one that has failed to start another cannot be interrupted any more.

    Args:
        jobs: gives the dotted names of the declared jobs: their packages are users' code (origins.py).
        from_start: whether any of them has a limit.

    Attributes:
        thread: its role.
    """

    def __init__(
        self,
        jobs: Callable[[], Iterable[str]] = tuple,
        from_start: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs = jobs
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Interruption, float]] = []
        self._numbers = itertools.count()
        self.thread = LazyRole(
            "limits", self._loop, without="no timeout_s is enforced", from_start=from_start
        )
        self._sweep_at = _SWEEP_AT

    def limit(self, seconds: float) -> _Limit:
        """Raise `JobTimeout` in this thread's `with` block when it takes longer than so many seconds."""
        return _Limit(self, seconds)

    def interrupt(
        self, ident: int, kind: type[BaseException], is_wanted: Callable[[], bool]
    ) -> None:
        """Raise an error in a thread as soon as that is safe, unless it is not wanted any more."""
        self.raise_after(0, Interruption(ident, kind, is_wanted))

    def raise_after(self, seconds: float, interruption: Interruption) -> None:
        """Raise it then, or as soon after as is safe, unless it is over before."""
        with self._changed:
            if len(self._due) >= self._sweep_at:  # most jobs end long before their limit
                self._due = [entry for entry in self._due if not entry[2].is_over]
                heapq.heapify(self._due)
                self._sweep_at = max(2 * len(self._due), _SWEEP_AT)
            self._put(seconds, interruption, FIRST_PAUSE_S)
            if self._due[0][2] is interruption:
                self._changed.notify()
        self.thread.wake()

    def _put(self, seconds: float, interruption: Interruption, pause_s: float) -> None:
        heapq.heappush(
            self._due, (lease_now() + seconds, next(self._numbers), interruption, pause_s)
        )

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > lease_now():
                    threads.rest()
                    self._changed.wait(self._due[0][0] - lease_now() if self._due else None)
                _, _, interruption, pause_s = heapq.heappop(self._due)
            threads.beat()
            try:
                pause_s = self._turn(interruption, pause_s)
            except BaseException:
                with self._changed:
                    self._put(LONGEST_PAUSE_S, interruption, LONGEST_PAUSE_S)
                raise
            if pause_s:
                with self._changed:
                    self._put(pause_s, interruption, min(pause_s * 2, LONGEST_PAUSE_S))

    def _turn(self, interruption: Interruption, pause_s: float) -> float:
        """Raise what is due, if that is safe; seconds until the next look, 0 = never."""
        ident = interruption.ident
        if interruption.is_raised and not interruption.is_over:
            return FORGET_S
        if not interruption.is_wanted:
            forget(interruption)
            return 0
        other = PENDING.get(ident)
        if other is not interruption:
            # One at a time, and the end of the process goes before a job's limit.
            if other is not None and other.is_wanted and issubclass(interruption.kind, Exception):
                return pause_s
            trust(self._jobs())
            PENDING[ident] = interruption
        return FORGET_S if interruption.attempt() else pause_s
