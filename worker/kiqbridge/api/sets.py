"""The sorted sets of jobs: `ScheduledSet`, `RetrySet`, `DeadSet` (protocol §22).

A set of 1,000,000 members is read in pages, so memory stays constant and no command takes long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kiqbridge.api import actions
from kiqbridge.api.actions import Action, Progress
from kiqbridge.api.filters import Filter
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.record import JobRecord

READ_AT_ONCE: Final = 100
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """A part of a list.

    Attributes:
        number: of this page, from 1 on.
        size: rows of a full page.
        total: rows of all pages together.
        rows: those of this page.
    """

    number: int
    size: int
    total: int
    rows: Sequence[Row]

    @property
    def count(self) -> int:
        """How many pages there are, at least 1."""
        return max(1, -(-self.total // self.size))


class SortedEntry(JobRecord):
    """A member of a sorted set.

    Attributes:
        score: when it is due, or when it died; epoch seconds.
        parent: the set it was found in.
    """

    def __init__(self, parent: "JobSet", text: bytes, score: float) -> None:
        super().__init__(text)
        self.parent = parent
        self.score = score

    @property
    def at(self) -> float:
        """Its score: when it is due, or when it died; epoch seconds."""
        return self.score

    @property
    def key(self) -> str:
        """`SCORE-JID`, by which `JobSet.fetch` finds it again; the keys of Ruby's pages."""
        return f"{score_text(self.score)}-{self.jid}"

    def retry(self) -> bool:
        """Push it now; `retry_count` goes down by one, so that this try does not count (§8.7).

        Returns:
            Whether it was still there.

        Raises:
            PayloadError: it cannot be a job; it stays where it is.
        """
        return bool(self.parent.apply("retry", [self]))

    def add_to_queue(self) -> bool:
        """As `retry`; Sidekiq's word for a scheduled job."""
        return self.retry()

    def kill(self) -> bool:
        """Move it to the dead set; whether it was still there."""
        return bool(self.parent.apply("kill", [self]))

    def delete(self) -> bool:
        """Remove it; whether it was still there."""
        return bool(self.parent.apply("delete", [self]))

    def reschedule(self, at: float) -> bool:
        """Let it be due at another time (epoch seconds); whether it was still there."""
        return bool(self.parent.apply("reschedule", [self], at=at))

    def requeue(
        self,
        *,
        args: Sequence[Any] | None = None,
        queue: str | None = None,
        job_class: str | None = None,
    ) -> str | None:
        """Push it now with other arguments, to another queue, or as another class; in one step.

        Returns:
            The jid, which stays; None if it was not there any more.

        Raises:
            PayloadError: a value that a push would refuse, or a job that cannot be read; it stays as it is.
        """
        return actions.requeue(self, args=args, queue=queue, job_class=job_class)


class JobSet:
    """A sorted set of jobs.

    Args:
        operator: whose; default `default_operator()`.

    Attributes:
        name: `schedule`, `retry` or `dead`.
    """

    name: str = ""
    newest_first: bool = False
    """Whether people see its highest scores first."""

    def __init__(self, operator: Operator | None = None) -> None:
        self.operator = operator or default_operator()
        self.redis_key: str = getattr(self.operator.keys, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.redis_key}>"

    @property
    def size(self) -> int:
        """How many members it has."""
        return int(self.operator.pool.call("ZCARD", self.redis_key))

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[SortedEntry]:
        """All members from the highest score down, as Ruby's API; what was seen may be deleted meanwhile."""
        position = self.size
        while position > 0:
            first = max(0, position - READ_AT_ONCE)
            yield from reversed(self._range(first, position - 1))
            position = first

    def page(
        self, number: int = 1, size: int = 25, *, newest_first: bool | None = None
    ) -> Page[SortedEntry]:
        """One page, in one round trip of two commands; a number past the end gives no rows.

        Args:
            number: from 1 on.
            size: rows of a page.
            newest_first: highest scores first; default as people expect of this set.
        """
        reverse = self.newest_first if newest_first is None else newest_first
        first = (max(1, number) - 1) * size
        read = "ZREVRANGE" if reverse else "ZRANGE"
        total, rows = self.operator.pool.run(
            ("ZCARD", self.redis_key),
            (read, self.redis_key, first, first + size - 1, "WITHSCORES"),
        )
        return Page(number=max(1, number), size=size, total=total, rows=self._entries(rows))

    def scan(self, where: Filter | None = None, *, now: float) -> Iterator[SortedEntry]:
        """All members that match, from the lowest score up; what is added meanwhile may come, too.

        What is sure of a filter (a class, a text) is looked for at the server, so only what may match is sent.

        Args:
            where: which; default all.
            now: epoch seconds, for ages.
        """
        walk = actions.SetWalk(self, where.needle() if where else b"")
        while (entries := walk.read()) is not None:
            walk.left(entries)
            yield from (entry for entry in entries if where is None or where.matches(entry, now))

    def fetch(self, key: str) -> SortedEntry | None:
        """The member with this `SortedEntry.key`, None if it has left the set."""
        score, _, jid = key.partition("-")
        try:
            float(score)
        except ValueError:
            return None
        rows = self.operator.pool.call(
            "ZRANGE", self.redis_key, score, score, "BYSCORE", "WITHSCORES"
        )
        return next((entry for entry in self._entries(rows) if entry.jid == jid), None)

    def find_job(self, jid: str) -> SortedEntry | None:
        """The member with this jid, None if there is none; looks through the whole set, page by page."""
        found = self.scan(Filter(text=jid), now=0.0) if jid else iter(())
        return next((entry for entry in found if entry.jid == jid), None)

    def apply(
        self, action: Action, entries: Sequence[SortedEntry], *, at: float | None = None
    ) -> int:
        """Do the same to several members, in their order.

        Args:
            action: `retry` (push now), `kill`, `delete`, or `reschedule`.
            entries: members as they were read from this set.
            at: the new time for `reschedule`, epoch seconds.

        Returns:
            How many were still there as they were read.

        Raises:
            PayloadError: none could be; of several, those that cannot be pushed stay, with a warning.
            RedisUnavailable: repeat it; what was moved is not moved again.
        """
        return actions.apply(self, action, entries, at=at)

    def apply_all(
        self,
        action: Action,
        where: Filter | None = None,
        *,
        at: float | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Do the same to all members that match, from the lowest score up, in batches.

        Args:
            action: as for `apply`.
            where: which; default all.
            at: as for `apply`.
            limit: how many, at most.
            progress: called after each batch with how many were moved, and how many were looked at.

        Returns:
            How many were moved.

        Raises:
            As `apply`; batches before were carried out.
        """
        return actions.apply_all(self, action, where, at=at, limit=limit, progress=progress)

    def clear(self) -> int:
        """Delete all members; how many there were."""
        return actions.clear_set(self)

    def delete_all(self, where: Filter | None = None) -> int:
        """Delete all that match; how many."""
        return self.apply_all("delete", where)

    def entry(self, text: bytes, score: float) -> SortedEntry:
        """A member of this set out of what Redis answered."""
        return SortedEntry(self, text, score)

    def _range(self, first: int, last: int) -> list[SortedEntry]:
        rows = self.operator.pool.call("ZRANGE", self.redis_key, first, last, "WITHSCORES")
        return self._entries(rows)

    def _entries(self, rows: Sequence[bytes]) -> list[SortedEntry]:
        return [
            self.entry(text, float(score))
            for text, score in zip(rows[::2], rows[1::2], strict=True)
        ]


class ScheduledSet(JobSet):
    """Jobs that are due later; the soonest first."""

    name = "schedule"

    def add_all_to_queue(self, where: Filter | None = None) -> int:
        """Push all that match now; how many."""
        return self.apply_all("retry", where)


class RetrySet(JobSet):
    """Jobs that failed and are due again; the soonest first."""

    name = "retry"

    def retry_all(self, where: Filter | None = None) -> int:
        """Push all that match now, the lowest score first; how many."""
        return self.apply_all("retry", where)

    def kill_all(self, where: Filter | None = None) -> int:
        """Move all that match to the dead set; how many."""
        return self.apply_all("kill", where)


class DeadSet(JobSet):
    """Jobs that have used up their retries; the last to die first."""

    name = "dead"
    newest_first = True

    def retry_all(self, where: Filter | None = None) -> int:
        """Push all that match now, the lowest score first; how many."""
        return self.apply_all("retry", where)


def score_text(score: float) -> str:
    """A score as Redis writes it: the shortest text that is the same number."""
    return str(int(score)) if score.is_integer() else repr(score)
