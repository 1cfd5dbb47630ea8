"""What a job leaves behind that an operator deletes or kills: its text in the dead set, its end, its report.

A job of a schedule gets its end in the ledger; a state machine that waits for a job gets a failure. Both
are written by the script that removes the job. A job that is dead already has had both.
"""

from typing import NamedTuple

from kiqbridge.api.operator import Operator
from kiqbridge.api.record import JobRecord
from kiqbridge.errors import JobRemoved
from kiqbridge.settle.end_report import report_failure_in
from kiqbridge.settle.job_end import end_in
from kiqbridge.wire.raw_job import unreadable_job
from kiqbridge.wire.tick_mark import EndKind, LedgerEnd


class Removal(NamedTuple):
    """What is written when a job is gone: a report (settle/end_report.py), or b""; an end for a ledger."""

    report: bytes = b""
    end: LedgerEnd | None = None


def removal_of(text: bytes, outcome: EndKind, reason: str, now: float) -> Removal:
    """What is to be written of a job that is removed at `now` (epoch seconds); `reason` is a sentence."""
    error = JobRemoved(reason)
    return Removal(
        report_failure_in(text, outcome, error, now), end_in(text, outcome, now, error=error)
    )


def dead_text(operator: Operator, job: JobRecord, now: float) -> bytes:
    """The text for the dead set: as it is, or as a job that Ruby's pages can show if nobody can read it."""
    if job.item:
        return job.text
    return unreadable_job(
        job.text,
        error_class="JobRemoved",
        error_message=f"killed by {operator.by}; its text cannot be read",
        queue=job.queue,
        now=now,
        profile=operator.client.wire_profile(),
    )
