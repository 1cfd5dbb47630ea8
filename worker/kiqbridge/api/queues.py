"""Queues as an operator sees them (protocol §22)."""

import time
from collections.abc import Iterator, Sequence

from kiqbridge.api import queue_actions
from kiqbridge.api.actions import Progress
from kiqbridge.api.filters import Filter
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.queue_actions import QueueVerb
from kiqbridge.api.record import JobRecord
from kiqbridge.api.sets import READ_AT_ONCE, Page
from kiqbridge.store.operating import read_queue
from kiqbridge.store.pauses import Pause
from kiqbridge.wire.names import text_of


class QueuedJob(JobRecord):
    """A job that waits in a queue.

    Attributes:
        parent: the queue it was found in.
        from_tail: how many jobs were to be taken before it when it was read; None if that is not known.
    """

    def __init__(self, parent: "Queue", text: bytes, from_tail: int | None = None) -> None:
        super().__init__(text, queue=parent.name)
        self.parent = parent
        self.from_tail = from_tail

    def delete(self) -> bool:
        """Remove it; whether it still waited."""
        return bool(self.parent.apply("delete", [self]))

    def move(self, to: str) -> bool:
        """Push it to another queue instead; whether it still waited."""
        return bool(self.parent.apply("move", [self], to=to))

    def kill(self) -> bool:
        """Move it to the dead set; whether it still waited."""
        return bool(self.parent.apply("kill", [self]))


class Queue:
    """A queue; of jobs that workers have taken and not begun see `InFlight`.

    Args:
        name: as jobs name it.
        operator: whose; default `default_operator()`.
    """

    def __init__(self, name: str = "default", operator: Operator | None = None) -> None:
        self.name = name
        self.operator = operator or default_operator()
        self.redis_key = self.operator.keys.queue(name)

    def __repr__(self) -> str:
        return f"<Queue {self.redis_key}>"

    @classmethod
    def all(cls, operator: Operator | None = None) -> "list[Queue]":
        """All queues that a job was ever pushed to, by name."""
        whose = operator or default_operator()
        names = whose.pool.call("SMEMBERS", whose.keys.queues)
        return [cls(name, whose) for name in sorted(map(text_of, names))]

    @property
    def size(self) -> int:
        """How many jobs wait in it."""
        return int(self.operator.pool.call("LLEN", self.redis_key))

    def __len__(self) -> int:
        return self.size

    @property
    def latency(self) -> float:
        """Seconds for which the oldest job has waited; 0 if none waits (§22).

        Negative if its `enqueued_at` is in the future, as a sender's wrong clock writes it.
        """
        oldest = self.operator.pool.call("LINDEX", self.redis_key, -1)
        return JobRecord(oldest).latency(time.time()) if oldest else 0.0

    @property
    def pause(self) -> Pause | None:
        """By whom and why it is paused; None if it is not."""
        return next(
            (
                each
                for each in self.operator.pauses()
                if (each.kind, each.name) == ("queue", self.name)
            ),
            None,
        )

    @property
    def paused(self) -> bool:
        """Whether no worker takes its jobs."""
        return self.pause is not None

    def __iter__(self) -> Iterator[QueuedJob]:
        """All jobs, the last pushed first, as Ruby's API; what was seen may be deleted meanwhile."""
        size = size_before = self.size
        deleted, page = 0, 0
        while True:
            first = max(0, page * READ_AT_ONCE - deleted)
            texts = self.operator.pool.call(
                "LRANGE", self.redis_key, first, first + READ_AT_ONCE - 1
            )
            if not texts:
                return
            yield from self._jobs(texts, size - first - 1)
            page += 1
            size = self.size
            deleted = max(0, size_before - size)

    def page(
        self, number: int = 1, size: int = 25, *, oldest_first: bool = False
    ) -> Page[QueuedJob]:
        """One page, in one round trip; the last pushed first, or the next to be taken first.

        Args:
            number: from 1 on.
            size: rows of a page.
            oldest_first: the next to be taken first.
        """
        first = (max(1, number) - 1) * size
        last = first + size - 1
        span = (-last - 1, -first - 1) if oldest_first else (first, last)
        total, texts = self.operator.pool.run(
            ("LLEN", self.redis_key), ("LRANGE", self.redis_key, *span)
        )
        if oldest_first:
            texts.reverse()
            rows = self._jobs(texts, first, step=1)
        else:
            rows = self._jobs(texts, total - first - 1)
        return Page(number=max(1, number), size=size, total=total, rows=rows)

    def scan(self, where: Filter | None = None, *, now: float) -> Iterator[QueuedJob]:
        """All jobs that match, the last pushed first; what is pushed meanwhile lets some come twice.

        What is sure of a filter (a class, a text) is looked for at the server, so only what may match is sent.

        Args:
            where: which; default all.
            now: epoch seconds, for ages.
        """
        needle = where.needle() if where else b""
        pool, step = self.operator.pool, 1
        passed_over, most = 0, 2 * self.size + READ_AT_ONCE
        while passed_over < most:
            found = read_queue(
                pool, self.redis_key, passed_over, from_tail=False, needle=needle, step=step
            )
            if not found.looked_at:
                return
            step = found.step
            passed_over += found.looked_at
            for text, place in found.jobs:
                job = QueuedJob(self, text, place)
                if where is None or where.matches(job, now):
                    yield job

    def find_job(self, jid: str) -> QueuedJob | None:
        """The job with this jid, None if it does not wait here; looks through the whole queue."""
        found = self.scan(Filter(text=jid), now=0.0) if jid else iter(())
        return next((job for job in found if job.jid == jid), None)

    def oldest(self, passed_over: int, most: int) -> list[QueuedJob]:
        """Jobs from the next to be taken on, without the first of them."""
        texts = self.operator.pool.call(
            "LRANGE", self.redis_key, -passed_over - most, -passed_over - 1
        )
        texts.reverse()
        return self._jobs(texts, passed_over, step=1)

    def apply(self, action: QueueVerb, jobs: Sequence[QueuedJob], *, to: str | None = None) -> int:
        """Do the same to several jobs, in their order.

        Args:
            action: `delete`, `kill` (to the dead set), or `move` (to another queue, behind what waits there).
            jobs: as they were read from this queue.
            to: name of the queue to move to.

        Returns:
            How many still waited.

        Raises:
            PayloadError: a wrong argument; nothing was done.
            RedisUnavailable: repeat it; what was moved is not moved again.
        """
        return queue_actions.apply(self, action, jobs, to=to)

    def apply_all(
        self,
        action: QueueVerb,
        where: Filter | None = None,
        *,
        to: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Do the same to all jobs that match, the next to be taken first, in batches.

        Args:
            action: as for `apply`.
            where: which; default all.
            to: as for `apply`.
            limit: how many, at most.
            progress: called after each batch with how many were moved, and how many were looked at.

        Returns:
            How many were moved.

        Raises:
            As `apply`; batches before were carried out.
        """
        return queue_actions.apply_all(self, action, where, to=to, limit=limit, progress=progress)

    def clear(self) -> int:
        """Delete all jobs, and the queue's name from the list of queues (§22); how many jobs there were."""
        return queue_actions.clear_queue(self)

    def pause_it(self, reason: str = "", for_s: float | None = None) -> Pause:
        """Let no worker take its jobs, as `Client.pause_queue`; raises as that."""
        return queue_actions.pause_queue(self, reason, for_s)

    def resume(self) -> bool:
        """End its pause, whoever made it; whether it was paused."""
        return queue_actions.resume_queue(self)

    def job(self, text: bytes, from_tail: int | None = None) -> QueuedJob:
        """A job of this queue out of what Redis answered; `from_tail` as in `QueuedJob`."""
        return QueuedJob(self, text, from_tail)

    def _jobs(self, texts: Sequence[bytes], first: int, *, step: int = -1) -> list[QueuedJob]:
        return [
            QueuedJob(self, text, max(0, first + step * place)) for place, text in enumerate(texts)
        ]
