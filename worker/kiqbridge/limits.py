"""Ending jobs that run longer than their `timeout_s`, where they run on threads.

An error is raised in the job's thread at its next line of Python. A thread that waits in C (a query
without a timeout, a computation in a library) notices it only when it comes back: what must end at
all costs belongs in the process pool.
"""

import contextlib
import heapq
import itertools
import threading
from collections.abc import Iterator

from kiqbridge.clock import lease_now
from kiqbridge.errors import JobTimeout


class _Limit:
    """One running job; `lock` keeps its end and its timeout apart."""

    def __init__(self, thread: int, seconds: float) -> None:
        self.thread = thread
        self.seconds = seconds
        self.lock = threading.Lock()
        self.over = False
        self.fired = False


class Timekeeper:
    """The thread that watches over limits; started by the first one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, _Limit]] = []
        self._numbers = itertools.count()
        self._started = False

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise `JobTimeout` in this thread's block when it takes longer than so many seconds."""
        limit = _Limit(threading.get_ident(), seconds)
        self._watch(limit)
        try:
            yield
        except JobTimeout as error:
            if limit.fired and not error.args:
                error.args = (f"took longer than its timeout_s of {seconds:g} s",)
            raise
        finally:
            with limit.lock:
                limit.over = True
                if limit.fired:  # it may not have arrived yet, and the next job must not get it
                    _raise_in(limit.thread, None)

    def _watch(self, limit: _Limit) -> None:
        with self._changed:
            heapq.heappush(self._due, (lease_now() + limit.seconds, next(self._numbers), limit))
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="kiqbridge-limits", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > lease_now():
                    self._changed.wait(self._due[0][0] - lease_now() if self._due else None)
                _, _, limit = heapq.heappop(self._due)
            with limit.lock:
                if not limit.over:
                    limit.fired = True
                    _raise_in(limit.thread, JobTimeout)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise at its next line; None takes back what has not arrived."""
    import ctypes  # noqa: PLC0415 - few jobs have a limit, and fewer exceed it

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind)
    )
