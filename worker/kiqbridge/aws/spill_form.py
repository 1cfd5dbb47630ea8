"""A message of the spill queue: the jobs of one event, or of several of a group, as they were accepted.

`{"kiqbridge_spill": {…}, "jobs": […], "tick": …}`: the jobs have the jid and the time that they got when
they were first seen, and beside them stands what identifies each. When it is read, all is checked as if
it came from outside, so that whoever can write to the queue may enqueue no more than its source may.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kiqbridge.aws.job_forms import EnqueueRequest, Tick, parse_jobs
from kiqbridge.aws.record import Record, Sender
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source, own_key
from kiqbridge.wire.payload import shorten

ENVELOPE: Final = "kiqbridge_spill"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent.

    Attributes:
        id: names it; the same if it has to be sent again.
        body: ASCII, which SQS takes whatever the arguments of the jobs are.
        group: messages of one group keep their order; None = of a queue that is not FIFO.
    """

    id: str
    body: str
    group: str | None = None


def message_of(
    record: Record,
    requests: Sequence[EnqueueRequest],
    *,
    by: str,
    now: float,
    group: str | None = None,
) -> Message:
    """The message of requests that come from one sender; several only if none has a tick.

    Args:
        record: of the first.
        requests: their jobs have jids.
        by: who accepted them.
        now: when, epoch seconds.
        group: of a FIFO queue.
    """
    name = os.urandom(16).hex()
    jobs = [job for request in requests for job in request.jobs]
    content: dict[str, Any] = {
        ENVELOPE: {
            "version": VERSION,
            "id": name,
            "source": record.source,
            "origin": record.origin,
            "alias": record.alias,
            "by": by,
            "at": now,
            "guards": [_written(job.dedupe_key) for job in jobs],
        },
        "jobs": [job.item if job.jid is None else {**job.item, "jid": job.jid} for job in jobs],
    }
    if (tick := requests[0].tick) is not None:
        content["tick"] = _written_tick(tick)
    return Message(id=name, body=json.dumps(content, separators=(",", ":")), group=group)


def request_of_spilled(content: object, now: float) -> EnqueueRequest:
    """What a message asks for, checked as if it came from outside.

    Raises:
        EventError: it is no message of the spill queue.
        PayloadError: one of its jobs cannot be one.
    """
    envelope = content.get(ENVELOPE) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(envelope, Mapping):
        raise EventError(
            f"{shorten(content)} was not written by the enqueue function; nothing else may send to its spill "
            "queue: send it to the queue of an SQS source"
        )
    if envelope.get("version") != VERSION:
        raise EventError(
            f"{ENVELOPE}.version: {shorten(envelope.get('version'))} is not {VERSION}; a newer version of the "
            "function wrote it, so deploy that version and send the message again (kiqbridge spill replay)"
        )
    form = {key: value for key, value in content.items() if key != ENVELOPE}
    request = parse_jobs(form, now)
    sender = Sender(*(str(envelope.get(name, "")) for name in Sender._fields))
    if request.tick is not None:
        return replace(request, sender=sender)
    guards, name = envelope.get("guards"), envelope.get("id")
    if not isinstance(guards, list) or len(guards) != len(request.jobs) or not _is_name(name):
        raise EventError(
            f"{ENVELOPE}: needs its id, and in guards one element for each of the {len(request.jobs)} jobs"
        )
    jobs = [
        replace(job, dedupe_key=_read(guard, Identity(Source.SPILL, (str(name),)).of_job(index)))
        for index, (job, guard) in enumerate(zip(request.jobs, guards, strict=True))
    ]
    return replace(request, jobs=jobs, sender=sender)


def _written(dedupe_key: str | Identity | None) -> list[str] | None:
    if not dedupe_key:
        return None
    identity = own_key(dedupe_key) if isinstance(dedupe_key, str) else dedupe_key
    return [str(identity.source), *identity.parts]


def _written_tick(tick: Tick) -> dict[str, Any]:
    written: dict[str, Any] = {"schedule": tick.schedule, "at": tick.at}
    if tick.ignore_stale:
        written["on_stale"] = "ignore"
    if tick.overlap != "allow":
        written["overlap"] = tick.overlap
    if tick.max_age_s is not None:
        written["max_age_s"] = tick.max_age_s
    return written


def _read(guard: object, otherwise: Identity) -> Identity:
    if guard is None:
        return otherwise
    if isinstance(guard, list) and len(guard) > 1 and all(isinstance(part, str) for part in guard):
        try:
            return Identity(Source(guard[0]), tuple(guard[1:]))
        except ValueError:
            pass  # below
    raise EventError(
        f"{ENVELOPE}.guards: {shorten(guard)} does not name a source of this version and what it identifies "
        "an event by"
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)
