"""Actions on the jobs of a queue or a sorted set: retry, kill, delete, reschedule, move, requeue, clear (protocol §8.7, §22).

Each batch is one script: a job is moved whole, once, and with its entry in the audit log, or it stays
as it is. What another client or a worker has moved, deleted or rescheduled meanwhile is skipped. A process that
is killed during an action has moved all batches before, and nothing of the next one.

A job of a schedule that is deleted or killed gets its end in the ledger; a state machine that waits for a job
gets a failure. Both are written by the script that removes the job. A job that is dead already has had both.

In a queue, which is a list, a job is found by comparing texts from an end on. Within 5,000 jobs of an end it is
removed so, and the others keep their order. Farther in, it is overwritten in its place by the newest job of the
queue: so a script takes a millisecond in a queue of any length, and no job waits longer than before.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Generic, Literal, TypeVar

from kiqbridge.api.audit import new_note
from kiqbridge.api.operator import Operator
from kiqbridge.api.retrying import pushed_text
from kiqbridge.engine.settle.ending import ending, killed
from kiqbridge.errors import JobRemoved, KiqbridgeError, PayloadError
from kiqbridge.store import operating
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.job_record import WATCHERS, JobRecord, watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import check_queue, epoch_seconds
from kiqbridge.wire.raw_job import MAX_PARSED_BYTES, with_more
from kiqbridge.wire.tick_mark import EndKind

Action = Literal["retry", "kill", "delete", "reschedule", "move"]
"""`retry` pushes a job now, from any of the sets; `move` pushes it from a queue to another one, and in a set, where it keeps
its time, names another queue for it."""

Moment = float | Callable[["PlacedJob"], float]
"""Epoch seconds, or a function of a job that returns them."""

Progress = Callable[[int, int], None]
"""Called after each batch with the jobs that were moved, and those that were looked at."""

COMPARED_AT_ONCE: Final = 60_000
"""What one script may cost, in jobs that it compares: one to two milliseconds at the server."""
_WHOLE: Final = 2 * operating.NEAR
"""Jobs of a queue through which a script may look as a whole."""

_AWAITED: Final = "\n".join(f'"{name}"' for name in WATCHERS).encode()
"""What stands in the text of a job whose end somebody may wait for."""
_CLEARED_AT_ONCE: Final = 1_000
"""Jobs of a queue through which one script looks: about two milliseconds of the server's time."""


class PlacedJob(JobRecord):
    """A job that was read from a queue or a sorted set.

    Attributes:
        place: its score; in a queue how many jobs were to be taken before it when it was read, None = not known.
    """

    place: float | None


_Placed = TypeVar("_Placed", bound=PlacedJob)


class Jobs(ABC):
    """A queue or a sorted set of jobs.

    Attributes:
        name: of the queue; or `schedule`, `retry` or `dead`.
        operator: whose.
        redis_key: where it lies.
        target: what the audit log calls it.
    """

    actions: ClassVar[Sequence[Action]]
    """What can be done to its jobs."""
    is_queue: ClassVar[bool]

    name: str
    operator: Operator
    redis_key: str
    target: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.redis_key}>"

    @property
    @abstractmethod
    def size(self) -> int:
        """How many jobs it has."""

    def __len__(self) -> int:
        return self.size


class Applied(int):
    """The number of jobs that an action changed.

    Attributes:
        refused: how many it cannot be done to, which stay where they are; the others had left meanwhile.
        reason: why the first of those stays; empty if there are none.
    """

    refused: int = 0
    reason: str = ""


class Operation(Generic[_Placed]):
    """One action on jobs of one queue or set, in batches, and its entry in the audit log.

    Args:
        jobs: the queue or the set.
        action: what is done.
        detail: which jobs, for the audit log.
        at: the new time for `reschedule`.
        to: the queue for `move`.

    Raises:
        PayloadError: there is no such action here, `reschedule` has no time, `move` has no queue, or it is this one.

    Attributes:
        done: how many jobs were moved.
        started_at: epoch seconds.
    """

    def __init__(
        self,
        jobs: Jobs,
        action: Action,
        detail: str,
        *,
        at: Moment | None = None,
        to: str | None = None,
    ) -> None:
        if action not in jobs.actions:
            raise PayloadError(f"action: {action!r} is none of {', '.join(jobs.actions)}")
        if (at is None) == (action == "reschedule"):
            raise PayloadError(
                "at: give it with reschedule, as epoch seconds, and with nothing else"
            )
        if (to is None) == (action == "move"):
            raise PayloadError("to: give it with move, the name of a queue, and with nothing else")
        if to is not None:
            check_queue(to)
            if jobs.is_queue and to == jobs.name:
                raise PayloadError(f"to: the jobs are in {to} already")
        self._jobs = jobs
        self._action = action
        self._moment = at if callable(at) else None
        self._at = None if at is None or callable(at) else float(epoch_seconds(at))
        self._rescheduled: set[int] = set()
        self._to = to or ""
        self._operator = jobs.operator
        self._note = new_note(
            self._operator, action, jobs.target, f"{detail} to {to}" if to else detail
        )
        self._number = 0
        self.done = 0
        self._refused: set[int] = set()
        self._first: Exception | None = None
        self.started_at = time.time()

    def run(self, jobs: Sequence[_Placed], *, thorough: bool = False) -> list[_Placed]:
        """Do it to these jobs, in their order; returns those that it cannot be done to, which stay.

        Args:
            jobs: as read.
            thorough: find those of a queue that are no longer in their place however far they are from it, each
                in a script of its own.

        Raises:
            RedisUnavailable, RedisRefused: batches before this one were carried out.
        """
        now = time.time()
        length = self._jobs.size if self._jobs.is_queue else 0
        is_short = length <= _WHOLE
        acts: list[operating.Act] = []
        left: list[_Placed] = []
        size = cost = 0
        for job in jobs:
            try:
                act = self._act(job, now)
            except Exception as error:  # noqa: BLE001 - also of middleware: the other jobs must go on
                self._refused.add(hash(job.text))  # a part of a queue may be read twice
                self._first = self._first or error.with_traceback(None)
                left.append(job)
                continue
            more = len(act.member) + len(act.text)
            is_full = (
                len(acts) == operating.BATCH or size + more > BATCH_BYTES or cost > COMPARED_AT_ONCE
            )
            if acts and (is_full or (thorough and not is_short)):
                self._send(acts, now, thorough=thorough or is_short)
                acts, size, cost = [], 0, 0
            acts.append(act)
            size += more
            cost += _cost(act.place, length) if length else 0
        if acts:
            self._send(acts, now, thorough=thorough or is_short)
        return left

    def finish(self) -> Applied:
        """How many jobs were moved, and how many cannot be.

        Raises:
            PayloadError: none was, since none could be; the first reason.
        """
        if self._first is not None and not self.done:
            raise self._first
        done = Applied(self.done)
        if self._first is not None:
            done.refused, done.reason = len(self._refused), _reason(self._first)
        return done

    def is_own(self, job: _Placed) -> bool:
        """Whether this action itself has put a member of a set where it is."""
        if self._action == "move":
            return not self._jobs.is_queue and job.queue == self._to
        if self._moment is not None:
            return hash(job.text) in self._rescheduled
        if self._action == "reschedule":
            return job.place == self._at
        is_bury = self._action == "kill" and self._jobs.name == "dead"
        return is_bury and (job.place or 0.0) >= self.started_at

    def _own_score(self, job: _Placed) -> bytes:
        """What the job's own time is to be; nothing: that of all."""
        if self._moment is None:
            return b""
        self._rescheduled.add(hash(job.text))
        return repr(float(epoch_seconds(self._moment(job)))).encode()

    def _act(self, job: _Placed, now: float) -> operating.Act:
        read = job.text, job.place
        has_ended = self._jobs.target == "dead"
        if self._action == "reschedule" or (self._action == "kill" and has_ended):
            return operating.Act(*read, "score", self._own_score(job))
        if self._action == "move":
            moved = _moved(job, self._to)
            if not self._jobs.is_queue and moved == job.text:
                raise PayloadError(f"job {job.jid}: its queue cannot be read; it stays as it is")
            return operating.Act(*read, "push" if self._jobs.is_queue else "text", moved, self._to)
        if self._action == "retry":
            is_retry = self._jobs.target != "schedule"
            pushed = pushed_text(self._operator, job, now, is_retry=is_retry)
            if pushed is not None:
                return operating.Act(*read, "push", pushed[1], pushed[0])
            # As in the poller: who stops a push has the job.
            stopped = self._removal(job, "skipped", "client middleware stopped its push", now)
            return operating.Act(*read, "drop", effects=stopped)
        by = f"{self._operator.by} (via {self._operator.via})"
        if self._action == "kill":
            profile = self._operator.client.wire_profile()
            death = killed(self._operator.keys, job, by, now=now, profile=profile)
            return operating.Act(*read, "bury", death.text, effects=death.effects)
        effects = self._removal(job, "discarded", f"{by} deleted it", now)
        return operating.Act(*read, "drop", effects=() if has_ended else effects)

    def _removal(self, job: _Placed, outcome: EndKind, reason: str, now: float) -> Sequence[Effect]:
        return removal_effects(self._operator.keys, job.text, outcome, reason, now)

    def _send(self, acts: Sequence[operating.Act], now: float, *, thorough: bool) -> None:
        self._number += 1
        batch = operating.Batch(self._note, self._number, now if self._at is None else self._at)
        self.done = operating.operate(
            self._operator.pool,
            self._operator.keys,
            self._jobs.redis_key,
            acts,
            batch,
            is_queue=self._jobs.is_queue,
            thorough=thorough,
        )


class Look(Operation[_Placed]):
    """Does nothing to jobs but show them; an `Operation` by which a queue or a set is gone through."""

    def __init__(self, seen: Callable[[Sequence[_Placed]], object]) -> None:
        self._seen = seen
        self.done = 0
        self.started_at = time.time()

    def run(self, jobs: Sequence[_Placed], *, thorough: bool = False) -> list[_Placed]:  # noqa: ARG002 - see `Operation`
        """Show them; all stay."""
        if jobs:
            self._seen(jobs)
        return list(jobs)

    def is_own(self, job: _Placed) -> bool:  # noqa: ARG002 - see `Operation`
        """None is."""
        return False


def clear_jobs(jobs: Jobs) -> int:
    """Delete all jobs of a queue or a set at once, and end those whose end somebody waits for (protocol §22).

    It is empty with the first script, however long it is. Its jobs are then read from under another name, a part
    at a time; locks, batches, schedules and state machines get to know of theirs. A process that is killed
    meanwhile leaves the rest to the leader's search for jobs that are gone (features/gone_jobs/search.py).

    Returns:
        How many there were.

    Raises:
        RedisUnavailable: all were deleted, but maybe not all were ended; or none.
        RedisRefused: a key is of another type.
    """
    operator = jobs.operator
    pool, keys = operator.pool, operator.keys
    note = new_note(operator, "clear", jobs.target, "all")
    has_ends = jobs.target != "dead"  # what is dead has had its end
    queue = jobs.name if jobs.is_queue else ""
    total = operating.clear(pool, keys, jobs.redis_key, queue=queue, note=note, has_ends=has_ends)
    left, passed, step = total if has_ends else 0, 0, 1
    held = keys.cleared(note.id)
    reason = f"{operator.by} (via {operator.via}) cleared {queue or jobs.redis_key}"
    while left > 0:
        if queue:
            part = operating.read_queue(
                pool,
                held,
                passed,
                from_tail=True,
                needle=_AWAITED,
                step=step,
                most=_CLEARED_AT_ONCE,
            )
            step = part.step
            found, texts = part.looked_at, [text for text, _ in part.jobs]
        else:
            page = operating.read_set(pool, held, passed, (), needle=_AWAITED)
            found, texts = page.looked_at, [text for text, _ in page.members]
        if not found:
            break
        left, passed = max(left - found, 0), passed + found
        now = time.time()
        effects = [
            effect
            for text in texts
            for effect in removal_effects(keys, text, "discarded", reason, now)
        ]
        if effects or not left:
            operating.end_cleared(pool, held, left, effects)
            passed = 0
    return total


def removal_effects(
    keys: Keys, text: bytes, outcome: EndKind, reason: str, now: float
) -> Sequence[Effect]:
    """The effects of removing a job at `now` (epoch seconds); `reason` is a sentence."""
    return ending(keys, watched_payload(text), outcome, now, error=JobRemoved(reason))


def _reason(error: Exception) -> str:
    """Of middleware, too, whose errors may say little without their class."""
    return str(error) if isinstance(error, KiqbridgeError) else f"{type(error).__name__}: {error}"


def _cost(place: float | None, length: int) -> int:
    """Of an act, in jobs that are compared: near an end twice as many as lie before it, else the way to its place."""
    if place is None:
        return length
    depth = max(min(int(place), length - int(place)), 0)
    return 2 * depth if depth <= operating.NEAR else 200 + depth // 8


def _moved(job: PlacedJob, to: str) -> bytes:
    """Its text with the name of the new queue, to which the next retry goes, too; what cannot be read stays as it is."""
    if not job.item:
        return job.text
    if len(job.text) > MAX_PARSED_BYTES:
        return with_more(job.text.strip(), {"queue": to})
    return json_text.dumps_moved({**job.item, "queue": to}, job.text)
