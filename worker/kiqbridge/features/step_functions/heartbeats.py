"""Heartbeats for tasks whose jobs run here: a state machine with HeartbeatSeconds waits no longer without them.

1. The reporter looks each 5 s whether a running job may name a task (`look`); if so, the thread here begins.
2. Each second it looks at the running jobs. One that has run for a second gets its first heartbeat, which also
   makes up for the time in the queue; then one comes every `task_heartbeat_s` seconds.
3. When no such job runs, it waits to be woken again.

A job that ends, is given back or taken away is not among the running ones any more. Between two tries of a job
that has failed, none are sent.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from kiqbridge.client.current import log_context
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.features.step_functions.report import Task, may_have_task, task_of
from kiqbridge.features.step_functions.service import CallFailed, NobodyWaits, StepFunctions
from kiqbridge.runtime import threads
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import LazyRole, Until
from kiqbridge.wire.job_record import watched_payload

logger = logging.getLogger(__name__)

TICK_S: Final = 1.0
RETRY_S: Final = 5.0
"""Seconds after which a heartbeat that failed is tried again, or its interval if that is less."""

WARN_S: Final = 60.0


@dataclass(slots=True, eq=False)
class _Watched:
    """A running job; `due` on the clock, None = no heartbeats (any more)."""

    job: RunningJob
    task: Task | None
    every_s: float
    due: float | None


class TaskHeartbeats(LazyRole):
    """The thread that sends heartbeats; started by the first job that may name a task.

    Args:
        running: the running jobs, by the id of their thread or task.
        service: Step Functions.
        every_s: seconds between two heartbeats of a job that does not choose; 0 = none.
        clock: seconds that never jump.

    Attributes:
        sent: how many heartbeats Step Functions has taken.
    """

    def __init__(
        self,
        *,
        running: Callable[[], Mapping[str, RunningJob]],
        service: StepFunctions,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            "task heartbeats",
            self._beat_on,
            without="tasks of Step Functions get no heartbeats, and may fail",
            until=Until.ENDS,
            join_s=0,
        )
        self.sent = 0
        self._running = running
        self._service = service
        self._every_s = every_s
        self._clock = clock
        self._watched: dict[int, _Watched] = {}
        self._warn_at = 0.0

    def look(self) -> None:
        """Begin if a running job may name a task; called by another thread now and then."""
        if self._stopping.is_set() or (self._some.is_set() and self.runs):
            return
        if any(may_have_task(job.text) for job in self._running().values()):
            self.wake()

    def beat(self) -> bool:
        """Send what is due now; whether any running job may name a task."""
        now = self._clock()
        before, self._watched = self._watched, {}
        for job in self._running().values():
            if may_have_task(job.text):
                known = before.get(id(job))
                if known is None or known.job is not job:
                    task = task_of(watched_payload(job.text))
                    every_s = self._every_s
                    if task is not None and task.heartbeat_s is not None:
                        every_s = task.heartbeat_s
                    known = _Watched(job, task, every_s, now + TICK_S if every_s else None)
                self._watched[id(job)] = known
        for each in self._watched.values():
            if self._stopping.is_set():
                break
            if each.task is not None and each.due is not None and each.due <= now:
                with log_context(**{"class": each.task.job_class, "jid": each.task.jid}):
                    self._send(each, each.task)
        return bool(self._watched)

    def _send(self, each: _Watched, task: Task) -> None:
        threads.beat()
        try:
            self._service.heartbeat(task.token)
        except NobodyWaits as error:
            each.due = None
            logger.warning(
                "no task waits for job %s of class %s any more (%s); the job continues, and its outcome will not be accepted",
                task.jid,
                task.job_class,
                error,
            )
            return
        except CallFailed as error:
            each.due = self._clock() + min(each.every_s, RETRY_S)
            if self._clock() >= self._warn_at:
                self._warn_at = self._clock() + WARN_S
                logger.warning(
                    "a heartbeat of job %s of class %s could not be sent to Step Functions: %s; it is tried again",
                    task.jid,
                    task.job_class,
                    error,
                )
            return
        self.sent += 1
        each.due = self._clock() + each.every_s

    def _beat_on(self) -> None:
        while not self._stopping.is_set():
            threads.rest()
            self._some.wait()
            threads.beat()
            if not self.beat():
                self._some.clear()
                continue
            threads.rest()
            self._stopping.wait(TICK_S)
