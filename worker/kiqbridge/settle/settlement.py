"""What a job asks for that has ended, before it is written; one that simply succeeded asks for nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Where a job goes that did not simply succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched. ROUTE is the end of another queue, untouched as well. REPORT is for a job that has succeeded or
    is discarded, while a state machine waits for it: its report takes its place.
    """

    RETRY = "retry"
    DEAD = "dead"
    DISCARD = "discard"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job asks for that did not simply succeed.

    Attributes:
        verdict: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept; of REPORT, the report.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        failed: whether it counts as failed, if it is counted.
        notify: calls the error and death handlers; to be called once it is written, and only then.
        queue: where a job goes that is routed or pushed again.
        report: what Step Functions gets to know of a job that is dead (task_report.py); written with it.
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool
    notify: Callable[[], None] | None = None
    queue: str = ""
    failed: bool = True
    report: bytes = b""
