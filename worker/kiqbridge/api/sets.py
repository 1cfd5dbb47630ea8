"""The sorted sets of jobs: `ScheduledSet`, `RetrySet`, `DeadSet` (protocol §22).

A set of 1,000,000 members is read in pages, so memory stays constant and no command takes long.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from kiqbridge.api.actions import Applied, Operation
from kiqbridge.api.audit import new_note
from kiqbridge.api.filters import Filter
from kiqbridge.api.job_list import READ_AT_ONCE, JobList, ListedJob, Page
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.retrying import edited
from kiqbridge.errors import PayloadError
from kiqbridge.store.operating import LOOK, SEEN, Act, Batch, operate, read_set
from kiqbridge.store.process_set import read_infos
from kiqbridge.wire.dead_bounds import FIELD, DeadBounds, fleet_bounds


class SortedEntry(ListedJob):
    """A member of a sorted set.

    Attributes:
        parent: the set it was found in.
        score: when it is due, or when it died; epoch seconds.
    """

    def __init__(self, parent: "JobSet", text: bytes, score: float) -> None:
        super().__init__(text)
        self.parent: JobSet = parent
        self.score = self.place = score

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
        """Put the job into its queue now. It is `retry` under Sidekiq's word for a scheduled job."""
        return self.retry()

    def reschedule(self, at: float) -> bool:
        """Change the time at which it is due (epoch seconds); whether it was still there."""
        return bool(self.parent.apply("reschedule", [self], at=at))

    def move(self, to: str) -> bool:
        """Move it to another queue when it is due, or retried; whether it was still there."""
        return bool(self.parent.apply("move", [self], to=to))

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
        jobs, operator, now = self.parent, self.parent.operator, time.time()
        given = {"args": args, "queue": queue, "class": job_class}
        changes = {name: value for name, value in given.items() if value is not None}
        pushed = edited(operator, self, changes, now, is_retry=jobs.name != "schedule")
        if pushed is None:
            raise PayloadError(
                f"job {self.jid}: client middleware stopped its push; it stays where it is"
            )
        name, text = pushed
        detail = f"{self.display_class} {self.jid}, changed: {', '.join(changes) or 'nothing'}"
        batch = Batch(new_note(operator, "requeue", jobs.target, detail), 1, now)
        act = Act(self.text, self.score, "push", text, name)
        done = operate(operator.pool, operator.keys, jobs.redis_key, [act], batch, is_queue=False)
        return self.jid if done else None


class JobSet(JobList[SortedEntry]):
    """A sorted set of jobs.

    Args:
        operator: default `default_operator()`.

    Attributes:
        name: `schedule`, `retry` or `dead`.
    """

    actions = ("retry", "kill", "delete", "reschedule", "move")
    is_queue = False
    name = ""
    newest_first: bool = False
    """Whether people see its highest scores first."""

    def __init__(self, operator: Operator | None = None) -> None:
        self.operator = operator or default_operator()
        self.redis_key = getattr(self.operator.keys, self.name)
        self.target = self.name

    @property
    def size(self) -> int:
        """How many members it has."""
        return int(self.operator.pool.call("ZCARD", self.redis_key))

    def __iter__(self) -> Iterator[SortedEntry]:
        """All members from the highest score down, as Ruby's API; what was seen may be deleted meanwhile."""
        position = self.size
        while position > 0:
            first = max(0, position - READ_AT_ONCE)
            rows = self.operator.pool.call(
                "ZRANGE", self.redis_key, first, position - 1, "WITHSCORES"
            )
            yield from reversed(self._entries(rows))
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
            ("ZCARD", self.redis_key), (read, self.redis_key, first, first + size - 1, "WITHSCORES")
        )
        return Page(number=max(1, number), size=size, total=total, rows=self._entries(rows))

    def scan(self, where: Filter | None = None, *, now: float) -> Iterator[SortedEntry]:
        """All members that match, from the lowest score up; see `JobList.scan`."""
        walk = _Walk(self, where.needle() if where else b"")
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

    def delete_all(self, where: Filter | None = None) -> Applied:
        """Delete all that match; how many."""
        return self.apply_all("delete", where)

    def _carry_out(
        self, running: Operation[SortedEntry], where: Filter, limit: int | None
    ) -> Iterator[int]:
        walk = _Walk(self, where.needle())
        while (entries := walk.read()) is not None:
            meant = [
                entry
                for entry in entries
                if not running.is_own(entry) and where.matches(entry, running.started_at)
            ]
            refused = running.run(meant if limit is None else meant[: limit - running.done])
            taken = set(map(id, meant)).difference(map(id, refused))
            walk.left([entry for entry in entries if id(entry) not in taken])
            yield walk.looked_at

    def _entries(self, rows: Sequence[bytes]) -> list[SortedEntry]:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        return [SortedEntry(self, text, float(score)) for text, score in pairs]


class ScheduledSet(JobSet):
    """Jobs that are due later; the soonest first."""

    name = "schedule"

    def add_all_to_queue(self, where: Filter | None = None) -> Applied:
        """Push all that match now; how many."""
        return self.apply_all("retry", where)


class RetrySet(JobSet):
    """Jobs that failed and are due again; the soonest first."""

    name = "retry"

    def retry_all(self, where: Filter | None = None) -> Applied:
        """Push all that match now, the lowest score first; how many."""
        return self.apply_all("retry", where)

    def kill_all(self, where: Filter | None = None) -> Applied:
        """Move all that match to the dead set; how many."""
        return self.apply_all("kill", where)


class DeadSet(JobSet):
    """Jobs that have used up their retries; the last to die first."""

    name = "dead"
    newest_first = True

    @property
    def bounds(self) -> DeadBounds:
        """How much it keeps, by what the living workers publish."""
        published = read_infos(self.operator.pool.run, self.operator.keys, field=FIELD)
        return fleet_bounds(published.values())

    def retry_all(self, where: Filter | None = None) -> Applied:
        """Push all that match now, the lowest score first; how many."""
        return self.apply_all("retry", where)


def score_text(score: float) -> str:
    """A score as Redis writes it: the shortest text that is the same number."""
    return str(int(score)) if score.is_integer() else repr(score)


class _Walk:
    """Through a set from the lowest score up, in pages, while members of it are moved, here and by others.

    It goes on behind the last member that was left, so what others remove shifts nothing. What is added
    meanwhile may come, too; it ends at the latest when twice as many were read as there were at the
    start, so that jobs which fail again at once do not keep it going.

    Attributes:
        looked_at: how many members were read.
    """

    def __init__(self, job_set: JobSet, needle: bytes) -> None:
        self._set = job_set
        self._needle = needle
        self._most = 2 * job_set.size + LOOK
        self._first = 0
        self._seen: list[tuple[bytes, float]] = []
        self.looked_at = 0

    def read(self) -> list[SortedEntry] | None:
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
        return [SortedEntry(self._set, text, score) for text, score in found.members]

    def left(self, entries: Sequence[SortedEntry]) -> None:
        """Note which members of the page are still in the set."""
        self._first += len(entries)
        last = [(entry.text, entry.score) for entry in reversed(entries[-SEEN:])]
        self._seen = [self._seen[0], *last, *self._seen[1:]][:SEEN]
