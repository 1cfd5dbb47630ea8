"""The text that is pushed in the place of a job that an operator retries or edits (protocol §8.7). Pure but for the wire profile."""

from collections.abc import Mapping
from typing import Any

from kiqbridge.api.operator import Operator
from kiqbridge.client.prepare import prepare, prepare_moved
from kiqbridge.errors import PayloadError
from kiqbridge.wire import json_text, raw_job
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.payload import timestamp


def pushed_text(
    operator: Operator, job: JobRecord, now: float, *, is_retry: bool
) -> tuple[str, bytes] | None:
    """Queue and text to push for a job as it lies in a set; None when client middleware stops the push.

    Args:
        operator: whose client pushes.
        job: as read.
        now: epoch seconds, for `enqueued_at`.
        is_retry: whether `retry_count` goes down by one.

    Raises:
        PayloadError: it cannot be a job, and why.
    """
    text, client = job.text, operator.client
    if len(text) > raw_job.MAX_PARSED_BYTES and not len(client.middleware):
        queue, moved = raw_job.moved_text(text, now, client.wire_profile())
        return queue, _counted_down(text, moved) if is_retry else moved
    payload = _parsed(job)
    if is_retry:
        _count_down(payload)
    return prepare_moved(payload, now, client.middleware, client.wire_profile, text)


def edited(
    operator: Operator, job: JobRecord, changes: Mapping[str, Any], now: float, *, is_retry: bool
) -> tuple[str, bytes] | None:
    """Queue and text to push for a job with some attributes replaced; the new values pass the checks of a push.

    Raises:
        PayloadError: the job cannot be read, or a change is refused; names the attribute.
    """
    client = operator.client
    payload = {**_parsed(job), **changes}
    if is_retry:
        _count_down(payload)
    prepared = prepare(payload, now, client.middleware, client.wire_profile)
    if prepared is None:
        return None
    prepared.payload["enqueued_at"] = timestamp(now, prepared.profile)
    text = json_text.dumps_moved(prepared.payload, job.text)
    raw_job.check_size(text, client.max_payload_bytes)
    return prepared.queue, text


def _parsed(job: JobRecord) -> dict[str, Any]:
    try:
        payload = json_text.loads(job.text)
    except json_text.MalformedJSON as error:
        payload, problem = None, f"its text cannot be read ({error})"
    else:
        problem = "its text is no object"
    if isinstance(payload, dict):
        return payload
    raise PayloadError(
        f"job {job.jid or '(without jid)'}: it cannot be pushed, since {problem}; it stays where it is, and can be "
        "deleted or killed"
    )


def _count_down(payload: dict[str, Any]) -> None:
    count = payload.get("retry_count")
    if type(count) is int:
        payload["retry_count"] = count - 1


def _counted_down(original: bytes, text: bytes) -> bytes:
    """By the bytes alone: of a name that is written twice, all readers take the last."""
    found, count = raw_job.outline(original), raw_job.retry_count_in(original)
    if found is None or count is None or b"retry_count" not in found.others:
        return text
    return raw_job.with_more(text, {"retry_count": count - 1})
