"""Where a job is, by its jid: in a queue, a set, a process, or between the two."""

from dataclasses import dataclass
from typing import Final, Literal, cast

from kiqbridge.api.in_flight import fetch_in_flight
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.processes import WorkSet
from kiqbridge.api.queues import Queue
from kiqbridge.api.record import JobRecord
from kiqbridge.api.sets import DeadSet, RetrySet, ScheduledSet

Place = Literal["queue", "retry", "schedule", "dead", "working", "in flight"]

_SETS: Final = (RetrySet, ScheduledSet, DeadSet)
_LONGEST_CLAIM: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job, and where it was.

    Attributes:
        place: `in flight`: taken by a worker, in Redis until it has been performed; `working`: as the
            heartbeat of the process shows it.
        name: of the queue or the set; of a process `IDENTITY TID`.
        job: a `QueuedJob` or `SortedEntry` where it can be acted on.
    """

    place: Place
    name: str
    job: JobRecord


def find_job(jid: str, operator: Operator | None = None) -> list[Found]:
    """All places where a job is now, the sets first; empty if there is none.

    It looks through all queues and sets, in pages. A job that moves while it looks may be found twice, or
    not at all.

    Raises:
        RedisUnavailable: not everything was read.
    """
    whose = operator or default_operator()
    if not jid:
        return []
    looked: list[tuple[str, str, JobRecord | None]] = [
        *((kind.name, kind.name, kind(whose).find_job(jid)) for kind in _SETS),
        *(
            ("in flight", held.queue, held.job)
            for held in fetch_in_flight(whose, most=_LONGEST_CLAIM)
            if held.job.jid == jid
        ),
        *(
            ("working", f"{work.process} {work.tid}", work.job)
            for work in WorkSet(whose)
            if work.job.jid == jid
        ),
        *(("queue", queue.name, queue.find_job(jid)) for queue in Queue.all(whose)),
    ]
    return [
        Found(place=cast("Place", place), name=name, job=job)
        for place, name, job in looked
        if job is not None
    ]
