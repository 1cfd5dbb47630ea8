"""Where a job is, by its jid: in a queue, a set, a process, or between the two; and in what state."""

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast

from kiqbridge import seams
from kiqbridge.api.in_flight import claiming_processes, fetch_in_flight, fetch_suspects
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.queues import Queue
from kiqbridge.api.sets import DeadSet, RetrySet, ScheduledSet
from kiqbridge.api.works import WorkSet
from kiqbridge.client.job_handle import JobStatus
from kiqbridge.wire.job_record import JobRecord

Place = Literal["queue", "retry", "schedule", "dead", "working", "in flight", "suspects"]

_SETS: Final = (RetrySet, ScheduledSet, DeadSet)
_LONGEST_CLAIM: Final = 100_000
_STATUS: Final[dict[Place, JobStatus]] = {
    "in flight": "running",
    "queue": "queued",
    "suspects": "queued",
    "retry": "retrying",
    "schedule": "scheduled",
    "dead": "dead",
    "working": "running",
}
"""Of a job that was seen at several places the first counts: it moved, or a heartbeat is some seconds old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job, and where it was.

    Attributes:
        place: `in flight`: taken by a worker, in Redis until it has been performed; `working`: as the
            heartbeat of the process shows it; `suspects`: it ran when a worker died, and waits to run alone.
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
        *(
            ("suspects", each.queue, job)
            for each in fetch_suspects(whose)
            for job in each.jobs
            if job.jid == jid
        ),
        *(("queue", queue.name, queue.find_job(jid)) for queue in Queue.all(whose)),
    ]
    return [
        Found(place=cast("Place", place), name=name, job=job)
        for place, name, job in looked
        if job is not None
    ]


class KeptResult(Protocol):
    """How a job has ended: what `kiqbridge.results` fetches; see there."""

    @property
    def outcome(self) -> str: ...  # noqa: D102 - see above
    @property
    def value(self) -> Any: ...  # noqa: D102
    @property
    def error(self) -> str: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What is known of a job at this moment.

    Attributes:
        status: where it is, else how it has ended, else `unknown`.
        found: where it is; None: nowhere, or a result says how it has ended.
        result: how it has ended; None: it has not, or that is not kept.
    """

    status: JobStatus
    found: Found | None = None
    result: KeptResult | None = None


def find_state(jid: str, operator: Operator | None = None) -> JobState:
    """The state of a job; `unknown` for some milliseconds after its end, until its result is written.

    Raises:
        PayloadError: the jid is no text, or empty.
        RedisUnavailable: not everything was read.
    """
    whose = operator or default_operator()
    order = list(_STATUS)
    for _ in range(2):  # a job that moves may be missed once
        result = _result(jid, whose)
        if result is None or result.outcome == "dead":  # and perhaps pushed again since
            places = {each.place: each for each in find_job(jid, whose)}
            shown = places.get("working")
            if shown and shown.name.partition(" ")[0] in claiming_processes(whose):
                del places["working"]  # it has ended since that heartbeat
            if place := min(places, key=order.index, default=None):
                return JobState(status=_STATUS[place], found=places[place])
        if result is not None:
            return JobState(status=cast("JobStatus", result.outcome), result=result)
    return JobState(status="unknown")


def _result(jid: str, operator: Operator) -> KeptResult | None:
    if seams.named("results") is None:
        return None
    found: KeptResult | None = seams.call("fetch_result")(jid, client=operator.client)
    return found
