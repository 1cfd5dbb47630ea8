"""Queues as an operator sees them (protocol §22)."""

import time
from collections.abc import Iterator, Sequence

from kiqbridge.api.filters import Filter
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.record import JobRecord
from kiqbridge.api.sets import READ_AT_ONCE, Page
from kiqbridge.store.pauses import Pause, list_pauses
from kiqbridge.wire.names import text_of


class QueuedJob(JobRecord):
    """A job that waits in a queue.

    Attributes:
        parent: the queue it was found in.
    """

    def __init__(self, parent: "Queue", text: bytes) -> None:
        super().__init__(text, queue=parent.name)
        self.parent = parent


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
        return [cls(name, whose) for name in sorted(text_of(name) for name in names)]

    @property
    def size(self) -> int:
        """How many jobs wait in it."""
        return int(self.operator.pool.call("LLEN", self.redis_key))

    def __len__(self) -> int:
        return self.size

    @property
    def latency(self) -> float:
        """Seconds for which the oldest job has waited; 0 if none waits (§22)."""
        oldest = self.operator.pool.call("LINDEX", self.redis_key, -1)
        return JobRecord(oldest).latency(time.time()) if oldest else 0.0

    @property
    def pause(self) -> Pause | None:
        """By whom and why it is paused; None if it is not."""
        pauses = list_pauses(self.operator.pool, self.operator.keys)
        return next(
            (each for each in pauses if (each.kind, each.name) == ("queue", self.name)), None
        )

    @property
    def paused(self) -> bool:
        """Whether no worker takes its jobs."""
        return self.pause is not None

    def __iter__(self) -> Iterator[QueuedJob]:
        """All jobs, the last pushed first, as Ruby's API; what was seen may be deleted meanwhile."""
        size_before = self.size
        deleted, page = 0, 0
        while True:
            first = max(0, page * READ_AT_ONCE - deleted)
            texts = self.operator.pool.call(
                "LRANGE", self.redis_key, first, first + READ_AT_ONCE - 1
            )
            if not texts:
                return
            yield from self._jobs(texts)
            page += 1
            deleted = max(0, size_before - self.size)

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
        rows = self._jobs(reversed(texts) if oldest_first else texts)
        return Page(number=max(1, number), size=size, total=total, rows=rows)

    def scan(self, where: Filter | None = None, *, now: float) -> Iterator[QueuedJob]:
        """All jobs that match, the last pushed first; `now` is epoch seconds, for ages."""
        return (job for job in self if where is None or where.matches(job, now))

    def find_job(self, jid: str) -> QueuedJob | None:
        """The job with this jid, None if it does not wait here; looks through the whole queue."""
        return next((job for job in self if job.jid == jid), None)

    def _jobs(self, texts: Sequence[bytes] | Iterator[bytes]) -> list[QueuedJob]:
        return [QueuedJob(self, text) for text in texts]
