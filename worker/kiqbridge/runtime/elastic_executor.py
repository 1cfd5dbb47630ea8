"""An executor that starts a thread whenever none is idle, so that nothing submitted waits for another.

A bounded pool deadlocks when what runs in it waits for what is still queued: plain middleware of one
job waits for the rest of its job, which needs a thread too. Here the bound is that of the callers:
no more threads run than jobs at once, times the changes of kind in their middleware.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from kiqbridge.runtime.threads import started

P = ParamSpec("P")
T = TypeVar("T")

IDLE_S = 10.0
"""After so long without work a thread ends."""

_Work = Callable[[], None]


class _Place:
    """Where one thread waits for work."""

    __slots__ = ("is_over", "turn", "work")

    def __init__(self) -> None:
        self.work: _Work | None = None
        self.is_over = False
        self.turn = threading.Lock()
        self.turn.acquire()


class ElasticExecutor(Executor):
    """Daemon threads, as many as there is work at once; idle ones are used again, the last one first."""

    def __init__(self, name: str, *, idle_s: float = IDLE_S) -> None:
        self._name = name
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[_Place] = []
        self._started = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<ElasticExecutor {self._name}, {len(self._idle)} idle>"

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run this at once on a thread of its own.

        Raises:
            RuntimeError: shut down.
            NoThread: the system has no room for another thread.
        """
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised in the caller that waits
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("cannot run anything after shutdown")
            place = self._idle.pop() if self._idle else None
            if place is None:
                self._started += 1
            number = self._started
        if place is not None:
            place.work = work
            place.turn.release()
        else:
            name = f"{self._name}-{number}"
            started(threading.Thread(target=self._run, args=(work,), name=name, daemon=True))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the interface of Executor
        """Take no more work and end idle threads; never waits for busy ones."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for place in idle:
            place.is_over = True
            place.turn.release()

    def _run(self, work: _Work | None) -> None:
        place = _Place()
        while work is not None:
            work()
            del work  # else what it holds is kept until the next one
            with self._lock:
                if self._closed:
                    return
                self._idle.append(place)
            work = self._wait(place)

    def _wait(self, place: _Place) -> _Work | None:
        # Looks at the place, whatever woke it: an exception that others raise in this thread arrives at
        # any line, and must not take along work that was put here meanwhile.
        while place.work is None and not place.is_over:
            try:
                if not place.turn.acquire(timeout=self._idle_s):
                    place.is_over = self._leave(place)
            except BaseException:  # noqa: BLE001, S112 - the thread is known as idle: it must stay
                continue
        work, place.work = place.work, None
        return work

    def _leave(self, place: _Place) -> bool:
        """Be no longer among the idle; False: it was taken from them, and its work is on the way."""
        with self._lock:
            if place not in self._idle:
                return False
            self._idle.remove(place)
            return True
