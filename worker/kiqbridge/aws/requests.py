"""From a record to the jobs that it asks for: it is a job by itself, or a mapping makes one of it."""

from dataclasses import dataclass

from kiqbridge.aws.job_forms import EnqueueRequest, is_job_form, parse_jobs
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.payload import shorten


@dataclass(frozen=True, slots=True)
class Ignored:
    """A mapping's filter leaves the record out.

    Attributes:
        why: for the log line.
    """

    why: str


def request_of(record: Record, now: float) -> EnqueueRequest | Ignored:
    """The jobs of a record, checked so far as Redis is not needed for it.

    Args:
        record: as a source made it.
        now: epoch seconds from which `in` counts.

    Raises:
        EventError, PayloadError: it asks for no job, or for one that cannot be one.
    """
    if record.error is not None:
        raise record.error
    if not is_job_form(record.job):
        raise EventError(_no_job(record))
    try:
        return parse_jobs(record.job, now, record.identity)
    except (PayloadError, EventError) as error:
        if not record.where:
            raise
        raise type(error)(f"{record.where}: {error}") from error


def _no_job(record: Record) -> str:
    where = record.where or "event"
    sender = f" of an event of {shorten(record.origin)}" if record.origin else ""
    return (
        f"{where}: {shorten(record.job)}{sender} holds no job; "
        'publish {"class": …, "args": […]} or {"jobs": […]} as the detail, or let the rule build '
        "a job with an InputTransformer"
    )
