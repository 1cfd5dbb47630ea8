"""From a record to the jobs that it asks for: it is a job by itself, or a mapping makes one of it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kiqbridge.aws.job_forms import EnqueueRequest, JobRequest, is_job_form, parse_jobs
from kiqbridge.aws.record import SPILLED, Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.records import dataclass
from kiqbridge.wire.payload import shorten, shorten_argument

if TYPE_CHECKING:
    from kiqbridge.aws.mapping.mapper import Mapper

_LONGEST_LIST: Final = 160
"""Characters of what was seen of a record, in a refusal."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A mapping's filter leaves the record out.

    Attributes:
        why: for the log line.
    """

    why: str


def request_of(
    record: Record, now: float, mapper: "Mapper | None" = None
) -> EnqueueRequest | Ignored:
    """The jobs of a record, checked so far as Redis is not needed for it.

    Args:
        record: as a source made it.
        now: epoch seconds from which `in` counts.
        mapper: makes jobs of what is none.

    Raises:
        EventError, PayloadError: it asks for no job, or for one that cannot be one.
    """
    if record.error is not None:
        raise record.error
    if record.ignored:
        return Ignored(record.ignored)
    if record.parts:
        return _of_parts(record.parts, now, mapper)
    if record.source == SPILLED:
        return _spilled(record, now)
    if not is_job_form(record.job):
        mapped = mapper.request(record, now) if mapper is not None else None
        if mapped is None:
            raise EventError(_no_job(record))
        return mapped
    try:
        return parse_jobs(record.job, now, record.identity)
    except (PayloadError, EventError) as error:
        if not record.where:
            raise
        raise type(error)(f"{record.where}: {error}") from error


def _of_parts(
    parts: Sequence[Record], now: float, mapper: "Mapper | None"
) -> EnqueueRequest | Ignored:
    """The jobs of all of them, which are one request: all or none."""
    jobs: list[JobRequest] = []
    ignored = ""
    for part in parts:
        request = request_of(part, now, mapper)
        if isinstance(request, Ignored):
            ignored = request.why
        elif request.tick is not None:
            raise EventError(f"{part.where}: tick: a tick is claimed by itself; send it alone")
        else:
            jobs += request.jobs
    return EnqueueRequest(jobs=jobs) if jobs else Ignored(ignored)


def _spilled(record: Record, now: float) -> EnqueueRequest:
    from kiqbridge.aws.spill_form import request_of_spilled  # noqa: PLC0415 - few events need it

    try:
        return request_of_spilled(record.job, now)
    except (PayloadError, EventError) as error:
        raise type(error)(f"{record.where}: {error}") from error


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
