"""Where a job is, by its jid: in a queue, a set, a process, or between the two."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from kiqbridge.api.filters import Filter
from kiqbridge.api.in_flight import fetch_in_flight, fetch_suspects
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.queues import Queue
from kiqbridge.api.sets import DeadSet, RetrySet, ScheduledSet
from kiqbridge.api.works import WorkSet
from kiqbridge.wire.job_record import JobRecord

Place = Literal["queue", "retry", "schedule", "dead", "working", "in flight", "suspects"]

_SETS: Final = (RetrySet, ScheduledSet, DeadSet)
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
class Search:
    """What a search through all places has found.

    Attributes:
        found: the job, the sets first.
        carriers: other jobs whose text contains the jid, such as the step of a chain before it; the first ones.
    """

    found: list[Found]
    carriers: list[Found]


def find_job(jid: str, operator: Operator | None = None) -> list[Found]:
    """All places where a job is now, the sets first; empty if there is none.

    It looks through all queues and sets, in pages. A job that moves while it looks may be found twice, or
    not at all.

    Raises:
        RedisUnavailable: not everything was read.
    """
    return search(jid, operator).found


def search(jid: str, operator: Operator | None = None) -> Search:
    """Find a job as `find_job` does, and the other jobs that name it."""
    whose = operator or default_operator()
    found, carriers = list[Found](), list[Found]()
    if not jid:
        return Search(found=found, carriers=carriers)
    name = jid.encode("utf-8", "surrogatepass")
    for place in _looked(jid, name, whose):
        for each in place:
            if each.job.jid == jid:
                found.append(each)
                break
            if len(carriers) < _MOST_CARRIERS:
                carriers.append(each)
    return Search(found=found, carriers=carriers)


def _looked(jid: str, name: bytes, whose: Operator) -> Iterator[Iterable[Found]]:
    """Of each place the jobs whose text contains the jid."""
    where = Filter(text=jid)
    for kind in _SETS:
        entries = kind(whose).scan(where, now=0.0)
        yield (Found(place=kind.name, name=kind.name, job=each) for each in entries)  # type: ignore[arg-type] # they are named so
    yield (
        Found(place="in flight", name=held.queue, job=held.job, seen=held)
        for held in fetch_in_flight(whose, most=_LONGEST_CLAIM)
        if name in held.job.text
    )
    yield (
        Found(place="working", name=f"{work.process} {work.tid}", job=work.job, seen=work)
        for work in WorkSet(whose)
        if work.job.jid == jid
    )
    yield (
        Found(place="suspects", name=each.queue, job=job)
        for each in fetch_suspects(whose)
        for job in each.jobs
        if name in job.text
    )
    for queue in Queue.all(whose):
        waiting = queue.scan(where, now=0.0)
        yield (Found(place="queue", name=queue.name, job=job) for job in waiting)
