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
    looks = (_in_sets, _in_flight, _working, _in_queues)
    return [found for look in looks for found in look(jid, whose)]


def _in_sets(jid: str, operator: Operator) -> list[Found]:
    found = ((kind.name, kind(operator).find_job(jid)) for kind in _SETS)
    return [
        Found(place=cast("Place", name), name=name, job=entry)
        for name, entry in found
        if entry is not None
    ]


def _in_queues(jid: str, operator: Operator) -> list[Found]:
    found = [(queue.name, queue.find_job(jid)) for queue in Queue.all(operator)]
    return [Found(place="queue", name=name, job=job) for name, job in found if job is not None]


def _working(jid: str, operator: Operator) -> list[Found]:
    return [
        Found(
            place="working",
            name=f"{work.process} {work.tid}",
            job=work.job,
        )
        for work in WorkSet(operator)
        if work.job.jid == jid
    ]


def _in_flight(jid: str, operator: Operator) -> list[Found]:
    return [
        Found(place="in flight", name=held.queue, job=held.job)
        for held in fetch_in_flight(operator, most=_LONGEST_CLAIM)
        if held.job.jid == jid
    ]
