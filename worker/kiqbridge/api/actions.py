"""Actions on the jobs of a sorted set: retry, kill, delete, reschedule, edit and requeue (protocol §8.7, §22).

Each batch is one script: a job is moved whole, once, and with its entry in the audit log, or it stays
as it is. What another client has moved, deleted or rescheduled meanwhile is skipped. A process that is
killed in the midst of an action has moved all batches before, and nothing of the next one.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from kiqbridge.api.audit import new_note
from kiqbridge.api.clearing import cleared
from kiqbridge.api.filters import Filter
from kiqbridge.api.leaving import Removal, dead_text, removal_of
from kiqbridge.api.retrying import edited, pushed_text
from kiqbridge.errors import PayloadError
from kiqbridge.store.operating import BATCH, LOOK, SEEN, Act, Batch, operate_on_set, read_set
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.payload import epoch_seconds

if TYPE_CHECKING:
    from kiqbridge.api.operator import Operator
    from kiqbridge.api.sets import JobSet, SortedEntry

logger = logging.getLogger(__name__)

Action = Literal["retry", "kill", "delete", "reschedule"]
"""`retry` pushes a job now, from any of the sets."""

Progress = Callable[[int, int], None]
"""Called after each batch with the jobs that were moved, and those that were looked at."""

ACTIONS: Final = ("retry", "kill", "delete", "reschedule")
_NOTHING: Final = Removal()


class SetAction:
    """One action on jobs of one set, in batches, and its entry in the audit log.

    Args:
        job_set: the set.
        action: what is done.
        detail: which jobs, for the audit log.
        at: the new time for `reschedule`, epoch seconds.

    Raises:
        PayloadError: there is no such action, or `reschedule` has no time.

    Attributes:
        done: how many jobs were moved.
        refused: why jobs were left where they are.
        started_at: epoch seconds.
    """

    def __init__(
        self, job_set: "JobSet", action: Action, detail: str, *, at: float | None = None
    ) -> None:
        if action not in ACTIONS:
            raise PayloadError(f"action: {action!r} is none of {', '.join(ACTIONS)}")
        if (at is None) == (action == "reschedule"):
            raise PayloadError(
                "at: give it with reschedule, as epoch seconds, and with nothing else"
            )
        self._set = job_set
        self._action = action
        self._at = None if at is None else float(epoch_seconds(at))
        self._operator: Operator = job_set.operator
        self._note = new_note(self._operator, action, job_set.name, detail)
        self._number = 0
        self.done = 0
        self.refused: list[Exception] = []
        self.started_at = time.time()

    def run(self, entries: Sequence["SortedEntry"]) -> list["SortedEntry"]:
        """Do it to these jobs, in their order; gives those that it cannot be done to, which stay (`refused`).

        Raises:
            RedisUnavailable, RedisRefused: batches before this one were carried out.
        """
        now = time.time()
        acts: list[Act] = []
        left: list[SortedEntry] = []
        size = 0
        for entry in entries:
            try:
                act = self._act(entry, now)
            except Exception as error:  # noqa: BLE001 - also of middleware: the other jobs must go on
                self.refused.append(error)
                left.append(entry)
                continue
            length = len(act.member) + len(act.text)
            if acts and (len(acts) == BATCH or size + length > BATCH_BYTES):
                self._send(acts, now)
                acts, size = [], 0
            acts.append(act)
            size += length
        if acts:
            self._send(acts, now)
        return left

    def finish(self) -> int:
        """How many jobs were moved.

        Raises:
            PayloadError: none was, since none could be; the first reason.
        """
        if self.refused and not self.done:
            raise self.refused[0]
        if self.refused:
            logger.warning(
                "%s: what cannot be pushed was left where it is (jobs: %s); the first one: %s",
                self._action,
                f"{len(self.refused):,}",
                self.refused[0],
            )
        return self.done

    def is_own(self, entry: "SortedEntry") -> bool:
        """Whether this action itself has put the member where it is."""
        if self._action == "reschedule":
            return entry.score == self._at
        return (
            self._action == "kill" and self._set.name == "dead" and entry.score >= self.started_at
        )

    def _act(self, entry: "SortedEntry", now: float) -> Act:
        read = entry.text, entry.score
        if self._action == "reschedule":
            return Act(*read, "score")
        removal = self._removal(entry, now)
        if self._action == "kill" and self._set.name == "dead":
            return Act(*read, "score")
        if self._action == "kill":
            text = dead_text(self._operator, entry, now)
            return Act(*read, "bury", text, report=removal.report, end=removal.end)
        if self._action == "delete":
            return Act(*read, "drop", report=removal.report, end=removal.end)
        pushed = pushed_text(self._operator, entry, now, is_retry=self._set.name != "schedule")
        if pushed is None:  # as in the poller: who stops a push has the job
            stopped = removal_of(entry.text, "skipped", "client middleware stopped its push", now)
            return Act(*read, "drop", report=stopped.report, end=stopped.end)
        queue, text = pushed
        return Act(*read, "push", text, queue)

    def _removal(self, entry: "SortedEntry", now: float) -> Removal:
        if self._action == "retry" or self._set.name == "dead":  # what is dead has had its end
            return _NOTHING
        by = f"{self._operator.by} (via {self._operator.via})"
        if self._action == "kill":
            return removal_of(entry.text, "dead", f"{by} killed it", now)
        return removal_of(entry.text, "discarded", f"{by} deleted it", now)

    def _send(self, acts: Sequence[Act], now: float) -> None:
        self._number += 1
        batch = Batch(
            note=self._note,
            number=self._number,
            score=now if self._at is None else self._at,
        )
        self.done = operate_on_set(
            self._operator.pool, self._operator.keys, self._set.redis_key, acts, batch
        )


def apply(
    job_set: "JobSet", action: Action, entries: Sequence["SortedEntry"], *, at: float | None = None
) -> int:
    """See `JobSet.apply`."""
    running = SetAction(job_set, action, _named(entries), at=at)
    running.run(entries)
    return running.finish()


def apply_all(
    job_set: "JobSet",
    action: Action,
    where: Filter | None,
    *,
    at: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> int:
    """See `JobSet.apply_all`."""
    running = SetAction(job_set, action, str(where) if where else "all", at=at)
    walk = SetWalk(job_set, where.needle() if where else b"")
    while (entries := walk.read()) is not None:
        meant = [
            entry
            for entry in entries
            if not running.is_own(entry)
            and (where is None or where.matches(entry, running.started_at))
        ]
        refused = running.run(meant if limit is None else meant[: limit - running.done])
        taken = set(map(id, meant)).difference(map(id, refused))
        walk.left([entry for entry in entries if id(entry) not in taken])
        if progress is not None:
            progress(running.done, walk.looked_at)
        if limit is not None and running.done >= limit:
            break
    return running.finish()


def clear_set(job_set: "JobSet") -> int:
    """See `JobSet.clear`."""
    operator = job_set.operator
    note = new_note(operator, "clear", job_set.name, "all")
    has_ends = job_set.name != "dead"  # what is dead has had its end
    return cleared(operator, job_set.redis_key, note, has_ends=has_ends)


def requeue(
    entry: "SortedEntry",
    *,
    args: Sequence[Any] | None,
    queue: str | None,
    job_class: str | None,
) -> str | None:
    """See `SortedEntry.requeue`."""
    operator, now = entry.parent.operator, time.time()
    changes: Mapping[str, Any] = {
        name: value
        for name, value in (("args", args), ("queue", queue), ("class", job_class))
        if value is not None
    }
    pushed = edited(operator, entry, changes, now, is_retry=entry.parent.name != "schedule")
    if pushed is None:
        raise PayloadError(
            f"job {entry.jid}: client middleware stopped its push; it stays where it is"
        )
    name, text = pushed
    detail = f"{entry.display_class} {entry.jid}, changed: {', '.join(changes) or 'nothing'}"
    batch = Batch(
        note=new_note(operator, "requeue", entry.parent.name, detail),
        number=1,
        score=now,
    )
    act = Act(entry.text, entry.score, "push", text, name)
    done = operate_on_set(operator.pool, operator.keys, entry.parent.redis_key, [act], batch)
    return entry.jid if done else None


def _named(entries: Sequence["SortedEntry"]) -> str:
    shown = [f"{entry.display_class} {entry.jid}" for entry in entries[:3]]
    more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""  # noqa: PLR2004 - as many as above
    return ", ".join(shown) + more


class SetWalk:
    """Through a set from the lowest score up, in pages, while members of it are moved, here and by others.

    It goes on behind the last member that was left, so what others remove shifts nothing. What is added
    meanwhile may come, too; it ends at the latest when twice as many were read as there were at the
    start, so that jobs which fail again at once do not keep it going.

    Attributes:
        looked_at: how many members were read.
    """

    def __init__(self, job_set: "JobSet", needle: bytes = b"") -> None:
        self._set = job_set
        self._needle = needle
        self._most = 2 * job_set.size + LOOK
        self._first = 0
        self._seen: list[tuple[bytes, float]] = []
        self.looked_at = 0

    def read(self) -> list["SortedEntry"] | None:
        """The members of the next page that contain the text, maybe none; None at the end."""
        if self.looked_at >= self._most:
            return None
        pool, key = self._set.operator.pool, self._set.redis_key
        found = read_set(pool, key, self._first, self._seen, needle=self._needle)
        if not found.looked_at:
            return None
        self.looked_at += found.looked_at
        self._first = found.first + found.looked_at - len(found.members)
        self._seen = [found.last, *self._seen][:SEEN]
        return [self._set.entry(text, score) for text, score in found.members]

    def left(self, entries: Sequence["SortedEntry"]) -> None:
        """Note which members of the page are still in the set."""
        self._first += len(entries)
        last = [(entry.text, entry.score) for entry in reversed(entries[-SEEN:])]
        self._seen = [self._seen[0], *last, *self._seen[1:]][:SEEN]
