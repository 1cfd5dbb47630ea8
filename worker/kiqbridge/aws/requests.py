"""From a record to the jobs that it asks for: it is a job by itself, or a mapping makes one of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from kiqbridge.aws.allow_list import SourceRule
from kiqbridge.aws.job_forms import JobRequest, is_job_form, parse_jobs, resembles_job
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.runtime.redaction import shorten, shorten_argument
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import new_jid

_LONGEST_LIST: Final = 160
"""Characters of what was seen of a record, in a refusal."""


class EventMapper(Protocol):
    """Makes jobs of records that are none."""

    def read_jobs(self, record: Record, now: float) -> Record | None:
        """The record with its jobs; None = no mapping takes it."""

    def find(self, record: Record) -> tuple[Any, str]:
        """The mapping that takes it, or None."""

    def place(self, mapping: Any) -> str:
        """File, line and name of a mapping."""


class ArgumentSchemas(Protocol):
    """What arguments must be."""

    def check(self, item: Mapping[str, Any]) -> None:
        """Raises PayloadError."""


class Mapped(NamedTuple):
    """What a function's file of mappings declares.

    Attributes:
        mapper: makes jobs of events that are none.
        schemas: what the arguments of a class must be; None = anything.
        rules: per source, beside the allow-list; None = there are none.
    """

    mapper: EventMapper | None = None
    schemas: ArgumentSchemas | None = None
    rules: tuple[SourceRule, ...] | None = None


def read_jobs(record: Record, now: float, mapper: EventMapper | None = None) -> Record:
    """The record with its jobs and their tick, checked so far as Redis is not needed for it.

    Args:
        record: as a source made it.
        now: epoch seconds from which `in` counts.
        mapper: makes jobs of what is none.

    Returns:
        The record; without jobs if it says in `ignored` why it asks for none.

    Raises:
        EventError, PayloadError: it asks for no job, or for one that cannot be one.
    """
    if record.error is not None:
        raise record.error
    if record.ignored:
        return record
    if record.parts:
        return _of_parts(record, now, mapper)
    if mapper is not None and record.reader is None and not is_job_form(record.job):
        mapped = mapper.read_jobs(record, now)
        if mapped is not None:
            return mapped
    try:
        if record.reader is not None:
            return record.reader(record, now)
        if resembles_job(record.job):  # the error names what is wrong with it
            # Set in place: a copy of a record would cost a tenth of a batch's time.
            record.jobs, record.tick = parse_jobs(record.job, now, record.identity)
            return record
    except (PayloadError, EventError) as error:
        if not record.where:
            raise
        raise type(error)(f"{record.where}: {error}") from error
    raise EventError(_no_job(record))


def _of_parts(record: Record, now: float, mapper: EventMapper | None) -> Record:
    """The record with the jobs of all its parts."""
    jobs: list[JobRequest] = []
    ignored = ""
    for part in record.parts:
        read = read_jobs(part, now, mapper)
        if read.tick is not None:
            raise EventError(f"{part.where}: tick: a tick is claimed by itself; send it alone")
        ignored = read.ignored or ignored
        jobs += read.jobs
    return replace(record, jobs=jobs, ignored="" if jobs else ignored)


def stamped(record: Record) -> Record:
    """The record with its trace and fingerprint in each job that has none of its own.

    A jid that begins with a fingerprint shows what its request contained. So a duplicate's jid, which the guard
    keeps anyway, says whether the earlier request was the same or only used the same key.

    The jid of a job with a `dedupe_key` says nothing about the record: another record may have used that
    key first. Then the record has no fingerprint any more.
    """
    if not record.trace and not record.fingerprint:
        return record
    if not all(isinstance(job.dedupe_key, Identity) for job in record.jobs):
        record = replace(record, fingerprint="")
    return replace(record, jobs=[_stamped(job, record) for job in record.jobs])


def _stamped(job: JobRequest, record: Record) -> JobRequest:
    jid = job.jid
    if record.fingerprint and jid is None and "jid" not in job.item:
        jid = record.fingerprint + new_jid()[len(record.fingerprint) :]
    return replace(job, item={**record.trace, **job.item}, jid=jid)


def _no_job(record: Record) -> str:
    """What was seen, and the mapping that would take it."""
    if record.no_job:
        return record.no_job
    match = {"source": record.source, "origin": record.origin}
    seen = _listed({**match, **record.facets})
    where = record.where or "event"
    what, instead = f"{where}: {shorten_argument(record.job)} holds no job", ""
    if record.job is None:
        what = f"{where}: an event of {record.source} holds no job by itself"
    else:
        instead = 'send {"class": …, "args": […]} or {"jobs": […]} in its place, or '
    return (
        f"{what}, and no mapping takes it ({seen[:_LONGEST_LIST]}); {instead}write into mappings.yml: "
        f"mappings: [{{match: {{{_listed(match)}}}, class: NAME, args: [EXPRESSION]}}]"
    )


def _listed(match: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {shorten(value)}" for key, value in match.items() if value)
