"""What the function answers, and logs, about jobs: their ids, classes and queues, and no arguments."""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from kiqbridge.aws.record import Result
from kiqbridge.client.guarded_push import Enqueued


class Answer(TypedDict):
    """What became of each job of an event; one that middleware stopped is in no list."""

    enqueued: list[dict[str, Any]]
    """`jid`, `class`, `queue`, and `at` (epoch seconds) if it runs later."""
    duplicates: list[dict[str, Any]]
    """`jid` of the job that was enqueued before, `class`, `queue`."""
    stale: list[dict[str, Any]]
    """`class`, `queue`, and `schedule` and `at` of a tick so old that nobody knows whether it ran; only
    one that says `"on_stale": "ignore"`, others are an error."""
    paused: NotRequired[list[dict[str, Any]]]
    """As `stale`: a tick of a schedule that is paused, which the ledger remembers; nothing is enqueued for it
    later. Only if there is one."""
    skipped: NotRequired[list[dict[str, Any]]]
    """As `paused`: a tick that somebody asked to skip."""
    spilled: NotRequired[list[dict[str, Any]]]
    """As `enqueued`: accepted while Redis is away, and enqueued with this jid when it is back. Only if there
    are such jobs."""


def answer_of(results: Sequence[Result]) -> Answer:
    """The answer of a direct invocation, and of an HTTP request that is accepted."""
    jobs = [job for result in results for job in result.jobs]
    answer = Answer(
        enqueued=[_with_time(job) for job in jobs if not job.duplicate],
        duplicates=[described(job) for job in jobs if job.duplicate],
        stale=[dict(each) for result in results for each in result.stale],
    )
    if any(result.paused for result in results):
        answer["paused"] = [dict(each) for result in results for each in result.paused]
    if any(result.skipped for result in results):
        answer["skipped"] = [dict(each) for result in results for each in result.skipped]
    if any(result.spilled for result in results):
        answer["spilled"] = [_with_time(job) for result in results for job in result.spilled]
    return answer


def _with_time(job: Enqueued) -> dict[str, Any]:
    return described(job) | ({} if job.at is None else {"at": job.at})


def described(job: Enqueued) -> dict[str, Any]:
    """A job as answers and log lines show it: no arguments."""
    return {"jid": job.jid, "class": job.job_class, "queue": job.queue}
