"""What a test sees of its jobs: those that wait, what was performed, and the assertions about them.

jobs.assert_enqueued(send_invoice, args=[42], in_=timedelta(minutes=5))
jobs.drain()                            # performs what is due, and what that enqueues
jobs.clock.move(minutes=5)              # the scheduled job is in its queue now
jobs.drain()
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Final, Unpack

from kiqbridge.client.registry import default_registry
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.testing import asking
from kiqbridge.testing.memory import Memory, Place
from kiqbridge.testing.passing_time import enqueue_due, pass_time
from kiqbridge.testing.performing import EndlessJobs, MemoryPerformer
from kiqbridge.testing.recorded import PerformedJob, RecordedJob, raise_error_of, read_job
from kiqbridge.testing.virtual_clock import VirtualClock
from kiqbridge.wire.keys import Keys

MOST_JOBS: Final = 10_000
"""After so many jobs of one `drain` without a limit, jobs that enqueue each other without end are more likely."""

MOST_NESTED: Final = 50
"""So many jobs may enqueue each other within one another, performed in place."""

_DEPTH: Final[ContextVar[int]] = ContextVar("kiqbridge_testing_depth", default=0)
"""How many jobs are performed in place around what runs here."""


class FakeJobs:
    """The jobs of one test; made by `fake` and `inline`. All threads of the process see the same one.

    Args:
        performs_at_once: perform each job where it is pushed, as `inline` does.
        raise_errors: of jobs that are performed at once: raise in the place of the push.
        pool: what jobs push through; default: one that asks what stands in for Redis.

    Attributes:
        clock: what is now.
        performed: each execution so far, in order.
        memory: the keys as they would be in Redis.
    """

    def __init__(
        self,
        *,
        performs_at_once: bool = False,
        raise_errors: bool = True,
        pool: RedisPool | None = None,
    ) -> None:
        self.clock = VirtualClock(self._passed)
        self.memory = Memory(self.clock.now, on_pushed=self._pushed)
        self.performed: list[PerformedJob] = []
        self._performs_at_once = performs_at_once
        self._raises = raise_errors
        self._performer = MemoryPerformer(self.memory, self.clock, pool)

    def __repr__(self) -> str:
        return (
            f"<FakeJobs {len(self.memory.waiting())} in queues, {len(self.scheduled)} scheduled, "
            f"{len(self.retries)} retries, {len(self.dead)} dead, {len(self.performed)} performed>"
        )

    @property
    def jobs(self) -> list[RecordedJob]:
        """What waits: jobs in queues, the oldest first, then scheduled ones, the earliest first."""
        return [*map(_read_place, self.memory.waiting()), *self.scheduled]

    @property
    def queues(self) -> Mapping[str, list[RecordedJob]]:
        """Queue name → its jobs, the oldest first; queues without jobs are missing."""
        found: dict[str, list[RecordedJob]] = {}
        for place in self.memory.waiting():
            found.setdefault(place.queue, []).append(_read_place(place))
        return found

    @property
    def scheduled(self) -> list[RecordedJob]:
        """Jobs that are due later, the earliest first."""
        return self._members("schedule")

    @property
    def retries(self) -> list[RecordedJob]:
        """Jobs that failed and are tried again, the earliest first; they have count, error and `at`."""
        return self._members("retry")

    @property
    def dead(self) -> list[RecordedJob]:
        """Jobs that are given up, the first to die first; `at` is when."""
        return self._members("dead")

    def enqueued(self, job: object = None, **wanted: Unpack[asking.Wanted]) -> list[RecordedJob]:
        """The jobs that wait, in queues or scheduled, and match all that is given.

        Args:
            job: a declared job, or the name of a class as on the wire.
            wanted: `args`, `kwargs`, `queue`, `at`, `in_` and `tolerance_s`, see `Wanted`.
        """
        return self._waiting(self._asked(job, **wanted))

    def assert_enqueued(
        self, job: object, *, count: int | None = None, **wanted: Unpack[asking.Wanted]
    ) -> RecordedJob:
        """Fail unless such a job waits; `count`: exactly so many do. Other arguments as `enqueued`.

        Returns:
            The first that matches.

        Raises:
            AssertionError: shows what is enqueued instead, the most alike first.
        """
        __tracebackhide__ = True
        asked = self._asked(job, **wanted)
        found = self._waiting(asked)
        if not found and count != 0:
            performed = [each.job for each in self.performed]
            raise AssertionError(asking.absent_text(asked, self.jobs, performed))
        _check_count(asked, found, count)
        return found[0] if found else RecordedJob(payload={}, queue="")

    def assert_not_enqueued(self, job: object = None, **wanted: Unpack[asking.Wanted]) -> None:
        """Fail if such a job waits; without arguments, if any does. Arguments as `enqueued`.

        Raises:
            AssertionError: shows those that match.
        """
        __tracebackhide__ = True
        asked = self._asked(job, **wanted)
        if found := self._waiting(asked):
            raise AssertionError(asking.present_text(asked, found))

    def assert_enqueued_count(
        self, count: int, job: object = None, *, queue: str | None = None
    ) -> None:
        """Fail unless exactly so many jobs wait: of all, of one class, in one queue.

        Raises:
            AssertionError: shows those that do.
        """
        __tracebackhide__ = True
        asked = self._asked(job, queue=queue)
        _check_count(asked, self._waiting(asked), count)

    def assert_performed(
        self, job: object, *, count: int | None = None, **wanted: Unpack[asking.WantedCall]
    ) -> PerformedJob:
        """Fail unless such a job was performed, whatever became of it; arguments as `assert_enqueued`.

        Returns:
            The first execution that matches.

        Raises:
            AssertionError: shows what was performed instead, the most alike first.
        """
        __tracebackhide__ = True
        asked = asking.Asked(job, **wanted, verb="performed", registry=default_registry)
        found = [each for each in self.performed if asked.matches(each.job)]
        if not found:
            others = [each.job for each in self.performed]
            raise AssertionError(asking.absent_text(asked, others, self.jobs))
        _check_count(asked, [each.job for each in found], count)
        return found[0]

    def drain(
        self,
        *,
        queue: str | None = None,
        job: object = None,
        limit: int | None = None,
        raise_errors: bool = True,
    ) -> int:
        """Perform the jobs that are due, the oldest first, and the jobs that these enqueue, until none is left.

        Scheduled jobs and retries are performed once the clock has reached their time.

        Args:
            queue: only jobs in this one.
            job: only those of this declared job, or class.
            limit: at most so many.
            raise_errors: raise the error of the first job that fails, with its jid; what a worker would have
                made of it stands in `retries` or `dead` all the same, and what waits behind it goes on waiting.
                What is no `Exception`, such as a failure that pytest raises, is raised in any case.

        Returns:
            How many were performed.

        Raises:
            EndlessJobs: more than 10,000, without a limit.
            BaseException: what a job raised, or a resource of `server.lifespan` while it was opened.
        """
        asked = self._asked(job, queue=queue)
        enqueue_due(
            self.memory, self.clock, client_of=self._performer.client, enqueue=self._enqueue
        )
        most = MOST_JOBS if limit is None else limit
        self._performer.apply_ends()
        count = 0
        while (place := self._next(asked)) is not None:
            if count >= most:
                if limit is not None:
                    break
                raise EndlessJobs(
                    f"{count:,} jobs were performed, and {_read_place(place)} waits still: do jobs enqueue "
                    "each other without end? drain(limit=…) sets the number"
                )
            if self.memory.take(place):
                self._perform(place, raises=raise_errors)
                count += 1
        return count

    def clear(self) -> None:
        """Forget all jobs, guards, ledgers and performed jobs; the clock stays."""
        self.memory.clear()
        self.performed.clear()

    def close(self) -> None:
        """Close the resources that jobs opened; `fake` and `inline` do so at their end."""
        self._performer.close()

    def _asked(self, job: object, **wanted: Unpack[asking.Wanted]) -> asking.Asked:
        return asking.Asked(job, **wanted, registry=default_registry)

    def _waiting(self, asked: asking.Asked) -> list[RecordedJob]:
        return [each for each in self.jobs if asked.matches(each)]

    def _members(self, name: str) -> list[RecordedJob]:
        return [
            read_job(text, at=score)
            for keys in self.memory.namespaces()
            for score, text in self.memory.sorted_set(getattr(keys, name))
        ]

    def _next(self, asked: asking.Asked) -> Place | None:
        if asked.is_any:
            return self.memory.next_waiting(lambda _place: True)
        return self.memory.next_waiting(lambda place: asked.matches(_read_place(place)))

    def _perform(self, place: Place, *, raises: bool) -> None:
        performed = self._performer.perform(place.keys, place.queue, place.entry.text)
        self.performed.append(performed)
        raise_error_of(performed, raises=raises)

    def _pushed(self, first: int, end: int) -> None:
        """Perform what was pushed just now, and let ends have their consequences, if this is `inline`."""
        if not self._performs_at_once:
            return
        depth = _DEPTH.get()
        if depth >= MOST_NESTED:
            raise EndlessJobs(
                f"{MOST_NESTED} jobs enqueue each other, each within the one before: performed in place, "
                "that never ends; use fake and drain(limit=…)"
            )
        token = _DEPTH.set(depth + 1)
        try:
            for place in self.memory.waiting():
                if first <= place.entry.number < end and self.memory.take(place):
                    self._perform(place, raises=self._raises)
            self._performer.apply_ends()
        finally:
            _DEPTH.reset(token)

    def _passed(self, before: float, schedules: bool) -> None:  # noqa: FBT001 - see `VirtualClock`
        pass_time(
            self.memory,
            self.clock,
            before,
            client_of=self._performer.client,
            enqueue=self._enqueue,
            registry=default_registry if schedules else None,
        )

    def _enqueue(self, keys: Keys, queue: str, text: bytes) -> None:
        number = self.memory.push(keys, queue, text)
        self._pushed(number, number + 1)


def _check_count(asked: asking.Asked, found: Sequence[RecordedJob], count: int | None) -> None:
    __tracebackhide__ = True
    if count is not None and len(found) != count:
        raise AssertionError(asking.wrong_count_text(asked, found, count))


def _read_place(place: Place) -> RecordedJob:
    return read_job(place.entry.text, place.queue)
