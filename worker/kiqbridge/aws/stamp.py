"""What a record gives each of its jobs besides what it asks for: trace headers, and the begin of its jid.

A jid that begins with a fingerprint shows what its request contained. So a duplicate's jid, which the guard
keeps anyway, says whether the earlier request was the same or only used the same key.
"""

from dataclasses import replace

from kiqbridge.aws.job_forms import JobRequest
from kiqbridge.aws.push import Asked
from kiqbridge.aws.record import Record
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import new_jid


def stamped(asked: Asked) -> Asked:
    """The same with the record's trace and fingerprint in each job that has none of its own.

    The jid of a job with a `dedupe_key` says nothing about the record: another record may have used that
    key first. Then the record has no fingerprint any more.
    """
    record, request = asked
    if not record.trace and not record.fingerprint:
        return asked
    if not all(isinstance(job.dedupe_key, Identity) for job in request.jobs):
        record = replace(record, fingerprint="")
    return Asked(record, replace(request, jobs=[_stamped(job, record) for job in request.jobs]))


def _stamped(job: JobRequest, record: Record) -> JobRequest:
    jid = job.jid
    if record.fingerprint and jid is None and "jid" not in job.item:
        jid = record.fingerprint + new_jid()[len(record.fingerprint) :]
    return replace(job, item={**record.trace, **job.item}, jid=jid)
