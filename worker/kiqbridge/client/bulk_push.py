"""Pushing many jobs in one call (protocol §5.7).

Jobs that differ only in arguments, times and ids share one prepared payload, whose text is written
once: that takes a fifth of the time. With middleware each job is prepared by itself.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiqbridge.client.job_writer import JobWriter, are_pushed_after, score
from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.prepare import PreparedJob, by_active_job, no_text, prepare
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.clock import client_now
from kiqbridge.store.enqueueing import schedule_commands
from kiqbridge.store.process_set import FleetProfile
from kiqbridge.wire.batches import BATCH_BYTES, slices_by_bytes
from kiqbridge.wire.bulk import AlikeTexts, Bulk, parse_bulk
from kiqbridge.wire.expiry import EXPIRES_IN
from kiqbridge.wire.payload import ENCRYPTED, check_arguments, new_jids, timestamp
from kiqbridge.wire.raw_job import check_size


def push_bulk(
    item: Mapping[str, Any],
    middleware: Chain[ClientMiddleware],
    profile: FleetProfile,
    writer_of: Callable[[Sequence[PreparedJob]], JobWriter],
) -> list[str | None]:
    """Push many jobs as `Client.push_bulk` does; `writer_of` gives the writer for the jobs of the call."""
    now = client_now()
    bulk = parse_bulk(by_active_job(item), now, random.random)
    count = len(bulk.argument_lists)
    if count and bulk.are_alike and not len(middleware):
        first = prepare(bulk.item(0), now, middleware, profile.current, bulk=True, by_rule=True)
        assert first is not None  # noqa: S101 - only middleware stops a job, and there is none
        expires_apart = EXPIRES_IN in first.payload and first.at is not None
        # What is encrypted differs in each.
        if first.rule is None and not expires_apart and ENCRYPTED not in first.payload:
            return _push_alike(first, bulk, writer_of([first]))
    prepared = [
        prepare(bulk.item(index), now, middleware, profile.current, bulk=True, by_rule=True)
        for index in range(count)
    ]
    writer = writer_of([job for job in prepared if job is not None])
    try:
        return [
            jid
            for start in range(0, len(prepared), bulk.batch_size)
            for jid in _push_batch(prepared[start : start + bulk.batch_size], writer, now)
        ]
    except KiqbridgeError as error:
        given = [job.jid if job else None for job in prepared]
        error.note_pushed(given, [job.is_pushed if job else None for job in prepared])
        raise


def _push_batch(
    batch: Sequence[PreparedJob | None], writer: JobWriter, now: float
) -> list[str | None]:
    jobs = [job for job in batch if job is not None]
    if any(job.rule is not None for job in jobs):
        from kiqbridge.client.guarded_push import GuardedPush, push_jobs  # noqa: PLC0415 - few jobs have one

        outcomes = push_jobs([GuardedPush(*each) for each in enumerate(jobs)], writer, now=now)
        pushed = iter(None if each.duplicate else each.jid for each in outcomes)
        return [next(pushed) if job else None for job in batch]
    writer.write(jobs)
    return [job.jid if job else None for job in batch]


def _push_alike(first: PreparedJob, bulk: Bulk, writer: JobWriter) -> list[str | None]:
    for args in bulk.argument_lists:
        check_arguments(args)
    count = len(bulk.argument_lists)
    jids = new_jids(count)
    states: list[bool | None] = [False] * count
    try:
        for start in range(0, count, bulk.batch_size):
            batch = slice(start, start + bulk.batch_size)
            _write_alike(first, bulk, batch, jids=jids, states=states, writer=writer)
    except KiqbridgeError as error:
        error.note_pushed(jids, states)
        raise
    return [*jids]


def _write_alike(
    first: PreparedJob,
    bulk: Bulk,
    batch: slice,
    *,
    jids: list[str],
    states: list[bool | None],
    writer: JobWriter,
) -> None:
    keys = writer.keys
    texts = _texts(first, bulk, batch, jids[batch])
    if sum(map(len, texts)) > writer.max_payload_bytes:
        check_size(max(texts, key=len), writer.max_payload_bytes)
    for part in slices_by_bytes(texts, BATCH_BYTES):
        here = slice(batch.start + part.start, batch.start + part.stop)
        times = bulk.times[here]
        if times[0] is None:
            commands = writer.push_commands({first.queue: texts[part]})
        else:
            scores = [score(at) for at in times if at is not None]
            pairs = zip(scores, texts[part], strict=True)
            commands = schedule_commands(keys, [each for pair in pairs for each in pair])
        are_pushed: bool | None = True
        try:
            writer.send(commands, jids[here], first.payload["class"])
        except KiqbridgeError as error:
            are_pushed = are_pushed_after(error, commands)
            raise
        finally:
            states[here] = [are_pushed] * len(texts[part])


def _texts(first: PreparedJob, bulk: Bulk, batch: slice, jids: list[str]) -> list[bytes]:
    """The texts of a batch; jobs for now have the time of the batch as `enqueued_at`."""
    payload = {name: value for name, value in first.payload.items() if name != "enqueued_at"}
    try:
        if bulk.times[batch][0] is None:
            payload = {**first.payload, "enqueued_at": timestamp(client_now(), first.profile)}
        return AlikeTexts(payload).texts(bulk.argument_lists[batch], jids)
    except (TypeError, ValueError) as error:
        raise no_text(payload, error) from error
