"""Jobs of schedules when they begin and end, if overlap or age matter there; and unique jobs when they begin.

1. `begin`, before the job's class is called and middleware sees it: one script decides by the server's clock.
   The job runs, is `expired`, or is `skipped` since an earlier one of its schedule runs. Where that shall be
   cancelled, it is asked to, if it is iterable; others go on side by side.
2. `Run.end`, however the run ends. The mark of a job that goes on later stays, without an owner: it was begun,
   so it is not too old when it goes on.
3. What could not be written since Redis was away is written by a thread of its own, which starts with the first
   of them: while this process lives its marks count, so none may stay.

A unique job asks for its lock before all of that (store/locks.py). Jobs without a lock and without such a policy cost
nothing here.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

from kiqbridge.engine.perform.execution import Execution, Run
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.failure import not_performed
from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import LazyRole
from kiqbridge.store.locks import begin_lock
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.runs import RunMark, begin_run, end_run
from kiqbridge.wire.job_text import watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import LockMark, lock_of
from kiqbridge.wire.tick_mark import EndKind, tick_mark_of

_BEGINNING = "beginning jobs of schedules under their rules of overlap and age, without which they begin at once,"
_LOCKING = "beginning unique jobs under their locks, without which they begin at once,"
RETRY_S = 1.0
MOST_JID = 100


class RunMarks(LazyRole):
    """The marks of one process.

    Args:
        keys: the namespace.
        connect: makes the connection of its thread.
        identity: of the process, for jobs that were popped, which no incarnation holds.
        cancel: asks an iterable job to end, by its jid.
        wall_now: epoch seconds.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        connect: Callable[[], RedisConnection],
        identity: str,
        cancel: Callable[[str], object],
        wall_now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            "run marks",
            self._write_on,
            work="noting the ends of runs of schedules",
            without="schedules take jobs that have ended for running ones",
        )
        self._keys = keys
        self._connect = connect
        self._identity = identity
        self._cancel = cancel
        self._wall_now = wall_now
        self._held: dict[RunMark, MarkedRun] = {}
        self._ended: deque[tuple[RunMark, bool]] = deque()
        self._writing = threading.Lock()

    def begin(
        self, connection: RedisConnection, execution: Execution, incarnation: str
    ) -> Settlement | None:
        """None: the job may run; `execution.run` is to be ended then. Else what becomes of it.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        payload = execution.payload
        if (lock := lock_of(payload)) is not None:
            left = self._begin_lock(connection, execution, lock)
            if left is not None:
                return left
        tick = tick_mark_of(payload)
        if tick is None or tick.is_plain:
            return None
        mark = RunMark(tick, _jid(payload.get("jid")), incarnation or self._identity)
        try:
            self._write_ended(connection)
            begun = begin_run(
                connection, self._keys, mark, is_first=payload.get("retry_count") is None
            )
        except RedisRefused as error:
            self.troubles.failed(_BEGINNING, error)
            return None
        self.troubles.worked(_BEGINNING)
        if begun.outcome == "expired":
            late_s = self._wall_now() - tick.at
            why = (
                f"begun {late_s:.0f} s after its instant, more than max_age_s of {tick.max_age_s:g}"
            )
            return self._left_out(execution, "expired", why)
        if begun.outcome == "skipped":
            why = (
                f"job {begun.others[0]} of its schedule {tick.schedule} still runs (overlap: skip)"
            )
            return self._left_out(execution, "skipped", why)
        self._held[mark] = execution.run = MarkedRun(self, mark)
        if execution.definition is not None and execution.definition.cancellable:
            for jid in begun.others:
                self._cancel(jid)
        return None

    def _begin_lock(
        self, connection: RedisConnection, execution: Execution, lock: LockMark
    ) -> Settlement | None:
        try:
            answer = begin_lock(connection, self._keys, lock, str(execution.payload.get("jid")))
        except RedisRefused as error:
            self.troubles.failed(_LOCKING, error)
            return None
        self.troubles.worked(_LOCKING)
        if not answer:
            return None
        why = f"job {answer} has its lock {lock.name} (unique)"
        if answer == "replaced":
            why = f"a later job has replaced it (unique, lock {lock.name})"
        return self._left_out(execution, "skipped", why)

    def taken(self, text: bytes) -> None:
        """A job was taken away from the thread that runs it, which may never come back."""
        marked = watched_payload(text) if self._held else {}
        tick = tick_mark_of(marked)
        if tick is None:
            return
        jid = _jid(str(marked.get("jid", "")))
        for mark, run in list(self._held.items()):
            if (mark.tick, mark.jid) == (tick, jid):
                run.end(is_over=False)

    def end(
        self, mark: RunMark, *, is_over: bool, connection: RedisConnection | None = None
    ) -> None:
        """A run has ended; written at once on `connection`, or by the thread. A second time does nothing."""
        if self._held.pop(mark, None) is None:
            return
        self._ended.append((mark, is_over))
        if connection is not None:
            with suppress(KiqbridgeError):  # the thread tries again
                self._write_ended(connection)
        if self._ended:
            self.wake()

    def stop(self, timeout_s: float | None = None) -> None:
        """Write what has ended, and end the thread."""
        super().stop(timeout_s)
        if self._ended and not self.runs:  # it could not be started
            self._some.set()
            self._write_on()

    def _left_out(self, execution: Execution, outcome: EndKind, why: str) -> Settlement:
        keys, now = self._keys, self._wall_now()
        return not_performed(keys, execution.payload, execution.queue, outcome, why, now=now)

    def _write_ended(self, connection: RedisConnection) -> None:
        """Write what has ended in this process, in its order; what is refused holds up no other.

        Raises:
            RedisUnavailable, RedisRefused: the rest is written later.
        """
        refused: RedisRefused | None = None
        with self._writing:
            for _ in range(len(self._ended)):
                mark, is_over = self._ended[0]
                try:
                    end_run(connection, self._keys, mark, is_over=is_over)
                except RedisRefused as error:
                    refused = error
                    self._ended.rotate(-1)
                else:
                    self._ended.popleft()
        if refused is not None:
            raise refused

    def _write_on(self) -> None:
        with closing(self._connect()) as connection:
            while not self._stopping.is_set() or self._some.is_set():
                threads.rest()
                self._some.wait()
                threads.beat()
                self._some.clear()
                is_written = self.tried(partial(self._write_ended, connection))
                if not is_written and not self._stopping.wait(RETRY_S):
                    self._some.set()


class MarkedRun(Run):
    """A run that others of its schedule see."""

    __slots__ = ("_mark", "_marks")

    def __init__(self, marks: RunMarks, mark: RunMark) -> None:
        self._marks = marks
        self._mark = mark

    def end(self, *, is_over: bool, connection: RedisConnection | None = None) -> None:
        """Note that the run has ended; as `Run.end`."""
        self._marks.end(self._mark, is_over=is_over, connection=connection)


def _jid(jid: object) -> str:
    """As part of a line: without blanks."""
    return "".join(str(jid).split())[:MOST_JID]
