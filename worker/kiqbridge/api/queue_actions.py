"""Actions on the jobs of a queue: delete, kill, move to another queue; and on the queue: clear, pause (protocol §22).

A queue is a list, in which a job is found by comparing texts from an end on. Within 5,000 jobs of an end it
is removed so, and the others keep their order. Farther in, it is overwritten in its place by the newest
job of the queue: so a script takes a millisecond in a queue of any length, and no job waits longer than
before. A job that a worker takes meanwhile is skipped.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from kiqbridge.api.actions import Progress
from kiqbridge.api.audit import new_note, record_audit
from kiqbridge.api.clearing import cleared
from kiqbridge.api.filters import Filter
from kiqbridge.api.leaving import dead_text, removal_of
from kiqbridge.errors import PayloadError
from kiqbridge.store.operating import (
    BATCH,
    NEAR,
    Batch,
    QueueAct,
    operate_on_queue,
    read_queue,
)
from kiqbridge.wire import json_text
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.payload import check_queue
from kiqbridge.wire.raw_job import MAX_PARSED_BYTES, with_more

if TYPE_CHECKING:
    from kiqbridge.api.operator import Operator
    from kiqbridge.api.queues import Queue, QueuedJob
    from kiqbridge.store.pauses import Pause

QueueVerb = Literal["delete", "move", "kill"]

VERBS: Final = ("delete", "move", "kill")
COMPARED_AT_ONCE: Final = 60_000
"""What one script may cost, in jobs that it compares: one to two milliseconds at the server."""
_WHOLE: Final = 2 * NEAR
"""Jobs of a queue through which a script may look as a whole."""
MOST_PASSES: Final = 5


class QueueAction:
    """One action on jobs of one queue, in batches, and its entry in the audit log.

    Args:
        queue: the queue.
        action: what is done.
        detail: which jobs, for the audit log.
        to: the queue to move to.

    Raises:
        PayloadError: there is no such action, `move` has no queue to move to, or it is this one.

    Attributes:
        done: how many jobs were moved.
    """

    def __init__(self, queue: "Queue", action: QueueVerb, detail: str, *, to: str | None) -> None:
        if action not in VERBS:
            raise PayloadError(f"action: {action!r} is none of {', '.join(VERBS)}")
        if (to is None) == (action == "move"):
            raise PayloadError("to: give it with move, the name of a queue, and with nothing else")
        if to is not None:
            check_queue(to)
        if to == queue.name:
            raise PayloadError(f"to: the jobs are in {to} already")
        self._queue = queue
        self._action = action
        self._to = to or ""
        self._operator: Operator = queue.operator
        target = f"queue:{queue.name}"
        self._note = new_note(self._operator, action, target, f"{detail} to {to}" if to else detail)
        self._number = 0
        self.done = 0

    def run(self, jobs: Sequence["QueuedJob"], *, thorough: bool) -> None:
        """Do it to these jobs, in their order.

        Args:
            jobs: as read.
            thorough: find those that are no longer in their place however far they are from it, each in a
                script of its own.

        Raises:
            RedisUnavailable, RedisRefused: batches before this one were carried out.
        """
        now = time.time()
        acts: list[QueueAct] = []
        size = cost = 0
        length = self._queue.size
        is_short = length <= _WHOLE
        for job in jobs:
            act = self._act(job, now)
            more = len(act.member) + len(act.text)
            is_full = len(acts) == BATCH or size + more > BATCH_BYTES or cost > COMPARED_AT_ONCE
            if acts and (is_full or (thorough and not is_short)):
                self._send(acts, now, thorough=thorough or is_short)
                acts, size, cost = [], 0, 0
            acts.append(act)
            size += more
            cost += _cost(act.place, length)
        if acts:
            self._send(acts, now, thorough=thorough or is_short)

    def _act(self, job: "QueuedJob", now: float) -> QueueAct:
        if self._action == "move":
            return QueueAct(job.text, job.from_tail, "move", _moved(job, self._to))
        by = f"{self._operator.by} (via {self._operator.via})"
        if self._action == "kill":
            removal = removal_of(job.text, "dead", f"{by} killed it", now)
            text = dead_text(self._operator, job, now)
            return QueueAct(job.text, job.from_tail, "bury", text, removal.report, removal.end)
        removal = removal_of(job.text, "discarded", f"{by} deleted it", now)
        return QueueAct(job.text, job.from_tail, "drop", b"", removal.report, removal.end)

    def _send(self, acts: Sequence[QueueAct], now: float, *, thorough: bool) -> None:
        self._number += 1
        batch = Batch(note=self._note, number=self._number, score=now)
        self.done = operate_on_queue(
            self._operator.pool,
            self._operator.keys,
            self._queue.name,
            acts,
            batch,
            to=self._to,
            thorough=thorough,
        )


def apply(
    queue: "Queue", action: QueueVerb, jobs: Sequence["QueuedJob"], *, to: str | None = None
) -> int:
    """See `Queue.apply`."""
    shown = ", ".join(f"{job.display_class} {job.jid}" for job in jobs[:3])
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""  # noqa: PLR2004 - as many as above
    running = QueueAction(queue, action, shown + more, to=to)
    running.run(jobs, thorough=True)
    return running.done


def apply_all(
    queue: "Queue",
    action: QueueVerb,
    where: Filter | None,
    *,
    to: str | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> int:
    """See `Queue.apply_all`."""
    running = QueueAction(queue, action, str(where) if where else "all", to=to)
    started_at = time.time()
    pool, key = queue.operator.pool, queue.redis_key
    needle = where.needle() if where else b""
    looked_at, step = 0, 1
    for _ in range(MOST_PASSES):
        before = running.done
        kept, most = 0, queue.size  # what is pushed meanwhile lies behind
        while kept + running.done - before < most:
            found = read_queue(pool, key, kept, from_tail=True, needle=needle, step=step)
            if not found.looked_at:
                break
            step = found.step
            jobs = [queue.job(text, place) for text, place in found.jobs]
            meant = [job for job in jobs if where is None or where.matches(job, started_at)]
            done = running.done
            if meant:
                left = len(meant) if limit is None else limit - done
                running.run(meant[:left], thorough=False)
            if running.done == done:
                kept += found.looked_at
                looked_at += found.looked_at
            # Else the same part again: there are others in the places of those that are gone.
            if progress is not None:
                progress(running.done, looked_at + running.done - before)
            if limit is not None and running.done >= limit:
                return running.done
        if running.done == before:  # workers took jobs meanwhile, so that some were passed over
            break
    return running.done


def clear_queue(queue: "Queue") -> int:
    """See `Queue.clear`."""
    operator = queue.operator
    note = new_note(operator, "clear", f"queue:{queue.name}", "all")
    return cleared(operator, queue.redis_key, note, queue=queue.name)


def pause_queue(queue: "Queue", reason: str, for_s: float | None) -> "Pause":
    """See `Queue.pause_it`."""
    operator = queue.operator
    made = operator.client.pause_queue(queue.name, reason=reason, by=operator.by, for_s=for_s)
    ends = "" if for_s is None else f" for {for_s:g} s"
    record_audit(operator, "pause", f"queue:{queue.name}", f"{reason}{ends}".strip())
    return made


def resume_queue(queue: "Queue") -> bool:
    """See `Queue.resume`."""
    operator = queue.operator
    was_paused = operator.client.resume_queue(queue.name)
    if was_paused:
        record_audit(operator, "resume", f"queue:{queue.name}")
    return was_paused


def _cost(place: int | None, length: int) -> int:
    """Of an act, in jobs that are compared: near an end twice as many as lie before it, else the way to its place."""
    if place is None:
        return length
    depth = max(min(place, length - place), 0)
    return 2 * depth if depth <= NEAR else 200 + depth // 8


def _moved(job: "QueuedJob", to: str) -> bytes:
    """Its text with the name of the new queue, to which a retry goes, too; what cannot be read stays as it is."""
    if not job.item:
        return job.text
    if len(job.text) > MAX_PARSED_BYTES:
        return with_more(job.text.strip(), {"queue": to})
    return json_text.dumps_moved({**job.item, "queue": to}, job.text)
