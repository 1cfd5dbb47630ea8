"""Queues as an operator sees them (protocol §22)."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from kiqbridge.api.actions import Operation
from kiqbridge.api.audit import record_audit
from kiqbridge.api.filters import Filter
from kiqbridge.api.job_list import READ_AT_ONCE, JobList, ListedJob, Page
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.store.operating import read_queue
from kiqbridge.store.pauses import Pause
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.names import text_of

MOST_PASSES: Final = 5
"""How often a queue is walked through for one action, while workers take jobs so that some are passed over."""


class QueuedJob(ListedJob):
    """A job that waits in a queue.

    Attributes:
        parent: the queue it was found in.
        from_tail: how many jobs were to be taken before it when it was read; None if that is not known.
    """

    def __init__(self, parent: "Queue", text: bytes, from_tail: int | None = None) -> None:
        super().__init__(text, queue=parent.name)
        self.parent: Queue = parent
        self.from_tail = self.place = from_tail

    def move(self, to: str) -> bool:
        """Push it to another queue instead; whether it still waited."""
        return bool(self.parent.apply("move", [self], to=to))


class Queue(JobList[QueuedJob]):
    """A queue; of jobs that workers have taken and not begun see `InFlight`.

    Args:
        name: as jobs name it.
        operator: default `default_operator()`.
    """

    actions = ("delete", "move", "kill")
    is_queue = True

    def __init__(self, name: str = "default", operator: Operator | None = None) -> None:
        self.name = name
        self.operator = operator or default_operator()
        self.redis_key = self.operator.keys.queue(name)
        self.target = f"queue:{name}"

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

    @property
    def latency(self) -> float:
        """Seconds for which the oldest job has waited; 0 if none waits (§22).

        Negative if its `enqueued_at` is in the future, as a sender's wrong clock writes it.
        """
        oldest = self.operator.pool.call("LINDEX", self.redis_key, -1)
        return JobRecord(oldest).latency(time.time()) if oldest else 0.0

    @property
    def pause(self) -> Pause | None:
        """Its pause, with who paused it and why; None if it is not paused."""
        own = ("queue", self.name)
        return next(
            (each for each in self.operator.pauses() if (each.kind, each.name) == own), None
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
        """All jobs that match, the last pushed first; see `JobList.scan`."""
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

    def oldest(self, passed_over: int, most: int) -> list[QueuedJob]:
        """Jobs from the next to be taken on, without the first of them."""
        texts = self.operator.pool.call(
            "LRANGE", self.redis_key, -passed_over - most, -passed_over - 1
        )
        texts.reverse()
        return self._jobs(texts, passed_over, step=1)

    def pause_it(self, reason: str = "", for_s: float | None = None) -> Pause:
        """Let no worker take its jobs, as `Client.pause_queue`; raises as that."""
        operator = self.operator
        made = operator.client.pause_queue(self.name, reason=reason, by=operator.by, for_s=for_s)
        ends = "" if for_s is None else f" for {for_s:g} s"
        record_audit(operator, "pause", self.target, f"{reason}{ends}".strip())
        return made

    def resume(self) -> bool:
        """End its pause, also one that another user made; whether it was paused."""
        was_paused = self.operator.client.resume_queue(self.name)
        if was_paused:
            record_audit(self.operator, "resume", self.target)
        return was_paused

    def _carry_out(
        self, running: Operation[QueuedJob], where: Filter, limit: int | None
    ) -> Iterator[int]:
        looked_at, step = 0, 1
        for _ in range(MOST_PASSES):
            before = running.done
            kept, most = 0, self.size  # what is pushed meanwhile lies behind
            while kept + running.done - before < most:
                found = read_queue(
                    self.operator.pool,
                    self.redis_key,
                    kept,
                    from_tail=True,
                    needle=where.needle(),
                    step=step,
                )
                if not found.looked_at:
                    break
                step = found.step
                jobs = [QueuedJob(self, text, place) for text, place in found.jobs]
                meant = [job for job in jobs if where.matches(job, running.started_at)]
                done = running.done
                if meant:
                    running.run(meant if limit is None else meant[: limit - done])
                if running.done == done:
                    kept += found.looked_at
                    looked_at += found.looked_at
                # Else the same part again: there are others in the places of those that are gone.
                yield looked_at + running.done - before
            if running.done == before:  # workers took jobs meanwhile, so that some were passed over
                break

    def _jobs(self, texts: Sequence[bytes], first: int, *, step: int = -1) -> list[QueuedJob]:
        return [
            QueuedJob(self, text, max(0, first + step * place)) for place, text in enumerate(texts)
        ]
