"""What has ended in this process lately, for a feature that keeps it (features/done); nothing is kept unless it asks.

Of executions that succeed a thread keeps the first ones of each class since they were taken last: a comparison of two
numbers is all that the others cost. Of other ends, and of failures, the process keeps the first ones.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kiqbridge.client.current import Cancelled
from kiqbridge.engine.perform.job_logger import TID
from kiqbridge.engine.settle.error_report import error_class, error_message
from kiqbridge.engine.settle.metrics import Metrics, measured_name
from kiqbridge.engine.settle.output import NOT_PERFORMED
from kiqbridge.wire.payload import FLOW, TICK

MOST_OTHERS: Final = 1_000
"""Failures and other ends that are kept until they are taken."""


class Ended(NamedTuple):
    """An execution that has ended, or a job that ended without one.

    Attributes:
        jid: as it stands in the payload: anything.
        name: the class, as it is measured.
        outcome: `failed`: it is tried again; else how the job ended.
        at: epoch seconds.
        took_s: seconds that it took; None: it was not run.
        tid: of the thread, or of the task.
        marks: of the payload what a record names: `tags`, `flow`, `tick`, as far as it has them.
    """

    jid: object
    name: str
    queue: str
    outcome: str
    at: float
    took_s: float | None
    tid: str
    marks: Mapping[str, Any]
    error: str = ""
    message: str = ""


class LastEnded:
    """What has ended, until it is taken.

    Args:
        metrics: has a room for each class on each thread, to which that thread adds while it holds less than `most`.

    Attributes:
        most: executions that succeed, of one class and thread, that are kept; 0: nothing is kept.
        wake: to be called when one is kept.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.most = 0
        self.wake: Callable[[], object] = lambda: None
        self._metrics = metrics
        self._others: deque[Ended] = deque()

    @staticmethod
    def success(
        payload: Mapping[str, Any], name: str, queue: str, took_s: float, result: object
    ) -> Ended:
        """The record of an execution that has ended now without an error."""
        outcome = "done"
        if result is NOT_PERFORMED:
            outcome = "skipped"
        elif result is Cancelled.CANCELLED:
            outcome = "cancelled"
        jid, tid, name = payload.get("jid"), TID.get(), measured_name(payload, name)
        return Ended(jid, name, queue, outcome, time.time(), took_s, tid, _marks(payload))

    @property
    def has_room(self) -> bool:
        """Whether `note` keeps another one."""
        return len(self._others) < MOST_OTHERS and self.most > 0

    def note(
        self,
        payload: Mapping[str, Any],
        queue: str,
        outcome: str,
        at: float,
        error: BaseException,
        *,
        name: str = "",
        took_s: float | None = None,
    ) -> None:
        """Note what has failed, or ended without a success; without `took_s` it was not performed.

        Args:
            payload: the job as it was fetched.
            queue: where it was fetched.
            outcome, at, error, took_s: see `Ended`.
            name: the class that is performed; else that of the payload.
        """
        if self.has_room:
            measured = measured_name(payload, name or str(payload.get("class")))
            said = error_class(error), error_message(error)
            jid, tid = payload.get("jid"), TID.get()
            self._others.append(
                Ended(jid, measured, queue, outcome, at, took_s, tid, _marks(payload), *said)
            )
            self.wake()

    def take(self) -> list[Ended]:
        """All that was noted since the last time."""
        rooms = (*self._metrics.rooms(), self._others)
        return [ended for room in rooms if room for ended in _emptied(room)]


def _marks(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: payload[name] for name in ("tags", FLOW, TICK) if name in payload}


def _emptied(room: "deque[Any]") -> Sequence[Ended]:
    """What it holds; its owner may add to it meanwhile."""
    return [room.popleft() for _ in range(len(room))]
