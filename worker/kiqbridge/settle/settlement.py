"""What a job asks for that has ended, before it is written; one that simply succeeded asks for nothing."""

from collections.abc import Callable
from enum import StrEnum

from kiqbridge.records import dataclass
from kiqbridge.wire.tick_mark import LedgerEnd


class Verdict(StrEnum):
    """Where a job goes that did not simply succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched but for the count of a limiter. ROUTE is the end of another queue, untouched as well. DISCARD leaves with the acknowledgement.
    LEAVE is for a job that leaves Redis and of which something stays: its report for a state machine that waits
    for it, or its end for the ledger of its schedule.
    """

    RETRY = "retry"
    DEAD = "dead"
    DISCARD = "discard"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job asks for that did not simply succeed.

    Attributes:
        verdict: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept; empty for LEAVE.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        failed: whether it counts as failed, if it is counted.
        notify: calls the error and death handlers; to be called once it is written, and only then.
        queue: where a job goes that is routed or pushed again.
        report: what Step Functions gets to know of a job that has ended (task_report.py); written with it.
        end: what the ledger of its schedule keeps of a job that has ended (end_report.py); written with it.
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool
    notify: Callable[[], None] | None = None
    queue: str = ""
    failed: bool = True
    report: bytes = b""
    end: LedgerEnd | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it has made room, or was put off, and its run goes on later."""
        return self.verdict in (Verdict.REPUSH, Verdict.SCHEDULE)
