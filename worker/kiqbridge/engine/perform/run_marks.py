"""Jobs of schedules when they begin and end, if overlap or age matter there.

1. `ask`, before the job's class is called and middleware sees it: the script of the gate decides by the server's clock.
   The job runs, is `expired`, or is `skipped` since an earlier one of its schedule runs. Where that shall be
   cancelled, it is asked to, if it is iterable; others go on side by side.
2. `Run.end`, however the run ends. The mark of a job that goes on later stays, without an owner: it was begun,
   so it is not too old when it goes on.
3. What could not be written since Redis was away is written by a thread of its own, which starts with the first
   of them: while this process lives its marks count, so none may stay.

Jobs without such a policy cost nothing here.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

from kiqbridge.engine.perform.execution import Execution, Run
from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import LazyRole
from kiqbridge.store.begin import Answer, Ask
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.runs import RunMark, ask_run, end_run
from kiqbridge.wire.job_record import watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import tick_mark_of

_BEGINNING = "beginning jobs of schedules under their rules of overlap and age, without which they begin at once,"
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

    def ask(self, connection: RedisConnection, execution: Execution, owner: str) -> Ask | None:
        """What is asked before a job of a schedule begins (gate.py); None: neither overlap nor age matter.

        Once it has begun, `execution.run` is to be ended.

        Raises:
            RedisUnavailable: what has ended here could not be written; repeat it.
        """
        payload = execution.payload
        tick = tick_mark_of(payload)
        if tick is None or tick.is_plain:
            return None
        mark = RunMark(tick, _jid(payload.get("jid")), owner or self._identity)
        with suppress(RedisRefused):  # as what is asked now will be
            self._write_ended(connection)

        def why(answer: Answer) -> str:
            if answer.outcome == "skipped":
                other, schedule = answer.more[0], tick.schedule
                return f"job {other} of its schedule {schedule} still runs (overlap: skip)"
            late_s = self._wall_now() - tick.at
            age = f"more than max_age_s of {tick.max_age_s:g}"
            return f"begun {late_s:.0f} s after its instant, {age}"

        def begun(answer: Answer) -> None:
            self._held[mark] = execution.run = MarkedRun(self, mark)
            if execution.definition is not None and execution.definition.cancellable:
                for jid in answer.more:
                    self._cancel(jid)

        part = ask_run(self._keys, mark, is_first=payload.get("retry_count") is None)
        return Ask(part, _BEGINNING, why, begun)

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
