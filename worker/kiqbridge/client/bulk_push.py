"""Pushing many jobs in one call (protocol §5.7).

Jobs that differ only in arguments, times and ids share one prepared payload, whose text is written
once: that takes a fifth of the time. With middleware each job is prepared by itself.
"""

import random
from collections.abc import Mapping
from typing import Any

from kiqbridge.client.job_writer import JobWriter, Writes, score
from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.prepare import PreparedJob, no_text, prepare
from kiqbridge.clock import client_now
from kiqbridge.store.enqueueing import push_commands, schedule_commands
from kiqbridge.store.wire_profile import FleetProfile
from kiqbridge.wire.batches import BATCH_BYTES, slices_by_bytes
from kiqbridge.wire.bulk import AlikeTexts, Bulk, parse_bulk
from kiqbridge.wire.expiry import EXPIRES_IN
from kiqbridge.wire.payload import ENCRYPTED, check_arguments, new_jids, timestamp
from kiqbridge.wire.raw_job import check_size


def push_bulk(
    item: Mapping[str, Any],
    middleware: Chain[ClientMiddleware],
    profile: FleetProfile,
    writer: Writes,
) -> list[str | None]:
    """See `Client.push_bulk`."""
    now = client_now()
    bulk = parse_bulk(item, now, random.random)
    count = len(bulk.argument_lists)
    if count and bulk.are_alike and not len(middleware):
        first = prepare(bulk.item(0), now, middleware, profile.current, bulk=True, by_rule=True)
        assert first is not None  # noqa: S101 - only middleware stops a job, and there is none
        expires_apart = EXPIRES_IN in first.payload and first.at is not None
        # What is encrypted differs in each.
        if first.rule is None and not expires_apart and ENCRYPTED not in first.payload:
            return _push_alike(first, bulk, writer.of(first.queue))
    prepared = [
        prepare(bulk.item(index), now, middleware, profile.current, bulk=True, by_rule=True)
        for index in range(count)
    ]
    jids: list[str | None] = []
    for start in range(0, len(prepared), bulk.batch_size):
        batch = prepared[start : start + bulk.batch_size]
        jobs = [job for job in batch if job is not None]
        if any(job.rule is not None for job in jobs):
            from kiqbridge.client.ruled_push import push_ruled  # noqa: PLC0415 - few jobs have one

            pushed = iter(push_ruled(jobs, writer, now=now))
            jids.extend(next(pushed) if job else None for job in batch)
            continue
        writer.write(jobs)
        jids.extend(job.jid if job else None for job in batch)
    return jids


def _push_alike(first: PreparedJob, bulk: Bulk, writer: JobWriter) -> list[str | None]:
    for args in bulk.argument_lists:
        check_arguments(args)
    jids: list[str | None] = []
    for start in range(0, len(bulk.argument_lists), bulk.batch_size):
        end = start + bulk.batch_size
        batch = new_jids(len(bulk.argument_lists[start:end]))
        _write_alike(first, bulk, slice(start, end), batch, writer)
        jids += batch
    return jids


def _write_alike(
    first: PreparedJob, bulk: Bulk, batch: slice, jids: list[str], writer: JobWriter
) -> None:
    keys, times = writer.keys, bulk.times[batch]
    texts = _texts(first, bulk, batch, jids)
    if sum(map(len, texts)) > writer.max_payload_bytes:
        check_size(max(texts, key=len), writer.max_payload_bytes)
    for part in slices_by_bytes(texts, BATCH_BYTES):
        if times[0] is None:
            commands = push_commands(keys, {first.queue: texts[part]})
        else:
            scores = [score(at) for at in times[part] if at is not None]
            pairs = zip(scores, texts[part], strict=True)
            commands = schedule_commands(keys, [each for pair in pairs for each in pair])
        writer.send(commands, jids[part], first.payload["class"])


def _texts(first: PreparedJob, bulk: Bulk, batch: slice, jids: list[str]) -> list[bytes]:
    """The texts of a batch; jobs for now have the time of the batch as `enqueued_at`."""
    payload = {name: value for name, value in first.payload.items() if name != "enqueued_at"}
    try:
        if bulk.times[batch][0] is None:
            payload = {**first.payload, "enqueued_at": timestamp(client_now(), first.profile)}
        return AlikeTexts(payload).texts(bulk.argument_lists[batch], jids)
    except (TypeError, ValueError) as error:
        raise no_text(payload, error) from error
