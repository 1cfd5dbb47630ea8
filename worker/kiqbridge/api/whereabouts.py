"""Where a job is, by its jid: in a queue, a set, a process, or between the two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

from kiqbridge.api.filters import sought_bytes
from kiqbridge.api.in_flight import fetch_in_flight, fetch_suspects
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.queues import Queue, QueuedJob
from kiqbridge.api.sets import DeadSet, JobSet, RetrySet, ScheduledSet, SortedEntry
from kiqbridge.api.works import WorkSet
from kiqbridge.store.operating import Spot, seek
from kiqbridge.wire.job_record import JobRecord

Place = Literal["queue", "retry", "schedule", "dead", "working", "in flight", "suspects"]

_SETS: Final = (RetrySet, ScheduledSet, DeadSet)
_NUMBER: Final = 12
"""Digits of a number in a cursor."""
_LONGEST_CLAIM: Final = 100_000
_MOST_CARRIERS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job, and where it was.

    Attributes:
        place: `in flight`: taken by a worker, in Redis until it has been performed; `working`: as the
            heartbeat of the process shows it; `suspects`: it waits to run alone.
        name: of the queue or the set; of a process `IDENTITY TID`.
        job: a `QueuedJob` or `SortedEntry` where it can be acted on.
        seen: what its place says besides: a `HeldJob` of one in flight, a `Work` of one that runs, or None.
    """

    place: Place
    name: str
    job: JobRecord
    seen: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a bounded search has not looked at.

    Attributes:
        looked_at: jobs of queues and sets that were looked at, by it and those before it.
        total: jobs that are there.
        cursor: where the next one goes on.
    """

    looked_at: int
    total: int
    cursor: str

    def __str__(self) -> str:
        return f"{self.looked_at:,} of {self.total:,} jobs were looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search through all places has found.

    Attributes:
        found: the job, the sets first.
        carriers: other jobs whose text contains the jid, such as the step of a chain before it; the first ones.
        looks: how many commands have looked through queues and sets.
        rest: what was not looked at; None: nothing.
    """

    found: list[Found]
    carriers: list[Found]
    looks: int = 0
    rest: Rest | None = None


def find_job(jid: str, operator: Operator | None = None) -> list[Found]:
    """All places where a job is now, the sets first; empty if there is none.

    It looks through all queues and sets, in pages. A job that moves while it looks may be found twice, or
    not at all.

    Raises:
        RedisUnavailable: not everything was read.
    """
    return search(jid, operator).found


def search(
    jid: str, operator: Operator | None = None, *, most: int | None = None, cursor: str = ""
) -> Search:
    """Find a job as `find_job` does, and the other jobs that name it.

    Args:
        jid: of the job.
        operator: default `default_operator()`.
        most: commands that look through queues and sets, each through some thousand jobs; default no limit.
        cursor: goes on where another search has ended (`Rest`).
    """
    whose = operator or default_operator()
    found, carriers = list[Found](), list[Found]()
    if not jid:
        return Search(found=found, carriers=carriers)
    looking = _Looking(jid, whose, most, cursor)
    seen = set[str]()
    for each in chain(_held(jid, whose), looking.places()):
        place = f"{each.place} {each.name}"
        if each.job.jid == jid and place not in seen:
            seen.add(place)
            found.append(each)
        elif len(carriers) < _MOST_CARRIERS:
            carriers.append(each)
    found.sort(key=lambda each: not isinstance(each.job, SortedEntry))
    return Search(found=found, carriers=carriers, looks=looking.looks, rest=looking.rest())


class _Looking:
    """A look through the sets, and then the queues, for jobs whose text contains the jid.

    Attributes:
        looks: how many commands it took so far.
    """

    def __init__(self, jid: str, operator: Operator, most: int | None, cursor: str) -> None:
        self.looks = 0
        self._jid = jid
        self._operator = operator
        self._most = most
        self._lists: Sequence[JobSet | Queue] = [
            *(kind(operator) for kind in _SETS),
            *Queue.all(operator),
        ]
        self._spot = self._parsed(cursor)

    def places(self) -> Iterator[Found]:
        """The jobs."""
        name = sought_bytes(self._jid)
        keys = [each.redis_key for each in self._lists]
        while self._spot.key < len(keys) and self.looks != self._most:
            self.looks += 1
            jobs, self._spot = seek(self._operator.pool, keys, name, self._spot)
            for number, place, text in jobs:
                yield self._found(self._lists[number], text, place)

    def rest(self) -> Rest | None:
        """What it has not looked at."""
        if self._spot.key >= len(self._lists):
            return None
        sizes = self._operator.pool.run(
            *(
                ("LLEN" if isinstance(each, Queue) else "ZCARD", each.redis_key)
                for each in self._lists
            )
        )
        looked_at = sum(sizes[: self._spot.key]) + self._spot.passed_over
        place = self._lists[self._spot.key].target
        return Rest(
            looked_at=looked_at,
            total=max(looked_at, sum(sizes)),
            cursor=f"{self._spot.passed_over} {place}",
        )

    def _parsed(self, cursor: str) -> Spot:
        """Behind the jobs that it names; where their queue is gone, at the next one."""
        passed_over, _, target = cursor.partition(" ")
        targets = [each.target for each in self._lists]
        if target in targets:
            is_number = passed_over.isdecimal() and passed_over.isascii()
            first = int(passed_over) if is_number and len(passed_over) <= _NUMBER else 0
            return Spot(targets.index(target), first)
        sets, queues = targets[: len(_SETS)], targets[len(_SETS) :]
        before = [each for each in queues if target.startswith("queue:") and each < target]
        return Spot(len(sets) + len(before)) if target.startswith("queue:") else Spot()

    @staticmethod
    def _found(place: JobSet | Queue, text: bytes, score: float) -> Found:
        if isinstance(place, Queue):
            return Found(place="queue", name=place.name, job=QueuedJob(place, text, int(score)))
        name: Any = place.name  # one of `Place`
        return Found(place=name, name=name, job=SortedEntry(place, text, score))


def _held(jid: str, whose: Operator) -> Iterator[Found]:
    """Of what workers hold the jobs whose text contains the jid."""
    name = sought_bytes(jid)
    yield from (
        Found(place="in flight", name=held.queue, job=held.job, seen=held)
        for held in fetch_in_flight(whose, most=_LONGEST_CLAIM)
        if name in held.job.text
    )
    yield from (
        Found(place="working", name=f"{work.process} {work.tid}", job=work.job, seen=work)
        for work in WorkSet(whose)
        if work.job.jid == jid
    )
    yield from (
        Found(place="suspects", name=each.queue, job=job)
        for each in fetch_suspects(whose)
        for job in each.jobs
        if name in job.text
    )
