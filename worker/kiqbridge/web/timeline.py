"""The life of a job in order, as far as its text and its place show it."""

from dataclasses import dataclass
from typing import Literal

from kiqbridge.api import Found, JobRecord, SortedEntry
from kiqbridge.wire.tick_mark import TickMark, tick_mark_of

Kind = Literal["", "bad", "next"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment: `at` in epoch seconds; `kind` is `bad` for failures and `next` for what is to come."""

    at: float
    label: str
    kind: Kind = ""


def steps(job: JobRecord, place: str, now: float) -> list[Step]:
    """What is known of it, the earliest first.

    Args:
        job: the job.
        place: where it is: `queue`, `retry`, `schedule`, `dead`, `working`, `in flight`.
        now: epoch seconds.
    """
    found: list[Step] = []
    mark = tick_of(job)
    if mark is not None:
        found.append(Step(at=float(mark.at), label=f"Occurrence of the schedule {mark.schedule}"))
    if job.created_at is not None:
        found.append(Step(at=job.created_at, label="Created"))
    if job.enqueued_at is not None:
        found.append(Step(at=job.enqueued_at, label="Enqueued"))
    if job.failed_at is not None:
        found.append(Step(at=job.failed_at, label="Failed first", kind="bad"))
    if job.retried_at is not None:
        label = f"Failed again (retry {job.retry_count})" if job.retry_count else "Failed again"
        found.append(Step(at=job.retried_at, label=label, kind="bad"))
    if isinstance(job, SortedEntry):
        found.append(_step_of_score(job, place, now))
    return sorted(found, key=lambda step: step.at)


def tick_of(job: JobRecord) -> TickMark | None:
    """The occurrence of a schedule that it belongs to, None if it belongs to none."""
    return tick_mark_of(job.item)


def place_of(found: Found) -> str:
    """Where it is, in words."""
    return {
        "queue": f"waits in the queue {found.name}",
        "retry": "waits for its next try",
        "schedule": "is scheduled",
        "dead": "is dead",
        "working": f"runs in {found.name}",
        "in flight": f"was taken from the queue {found.name} by a worker, and has not ended",
    }[found.place]


def _step_of_score(job: SortedEntry, place: str, now: float) -> Step:
    if place == "dead":
        return Step(at=job.at, label="Died", kind="bad")
    label = "Next try" if place == "retry" else "Due"
    return Step(at=job.at, label=label if job.at > now else f"{label} (now)", kind="next")
