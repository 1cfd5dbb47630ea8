"""What a record gives each of its jobs besides what it asks for: trace headers, and the begin of its jid.

A jid that begins with a fingerprint shows what its request contained. So a duplicate's jid, which the guard
keeps anyway, says whether the earlier request was the same or only used the same key.
"""

from dataclasses import replace

from kiqbridge.aws.job_forms import EnqueueRequest, JobRequest
from kiqbridge.aws.record import Record
from kiqbridge.wire.payload import new_jid


def stamped(request: EnqueueRequest, record: Record) -> EnqueueRequest:
    """The same request with the record's trace and fingerprint in each job that has none of its own."""
    if not record.trace and not record.fingerprint:
        return request
    return replace(request, jobs=[_stamped(job, record) for job in request.jobs])


def _stamped(job: JobRequest, record: Record) -> JobRequest:
    more: dict[str, str] = dict(record.trace)
    if record.fingerprint:
        more["jid"] = record.fingerprint + new_jid()[len(record.fingerprint) :]
    return replace(job, item={**more, **job.item})
