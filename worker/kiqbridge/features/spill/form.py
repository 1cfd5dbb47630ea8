"""A message of the spill queue: the jobs of one event, or of several of a group, as they were accepted.

`{"kiqbridge_spill": {…}, "jobs": […], "tick": …}`: the jobs have the jid and the time that they got when
they were first seen, and beside them stands what identifies each. When it is read, all is checked as if
it came from outside; and with a key (`spill_key`) only what has its signature is read at all, since a message
names itself the source by which it is decided what it may enqueue.

The key that signs what is spilled: a secret of the stack, so that no other writer's message counts.

A message names the source of its jobs, by which it is decided what they may be. SQS does not say who sent it, and a
policy of the queue says nothing of a message that was moved: only the signature does.

The first message that is signed or checked reads the secret, and loads what that needs: never the start of a function.
"""

import contextlib
import hmac
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.aws.job_forms import JobRequest, Tick, parse_jobs
from kiqbridge.aws.record import Answering, Delivery, Record, Sender
from kiqbridge.aws.sources.queues import batch_answer
from kiqbridge.aws.sources.reading import mapping_or_empty
from kiqbridge.config.client_settings import aws_variables
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read as read_setting
from kiqbridge.errors import EventError, PayloadError, RedisMisconfigured, RedisUnavailable
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store import deadline
from kiqbridge.wire import json_text
from kiqbridge.wire.expiry import EXPIRES_IN, set_expiry
from kiqbridge.wire.guards import Identity, Source, own_key

if TYPE_CHECKING:
    from kiqbridge.config.credentials.aws_request import StoredText


READ_WITHIN_S: Final = 3.0
"""Until a silent Secrets Manager counts as away."""
AGAIN_AFTER_S: Final = 5.0
"""Between two reads because a signature does not match."""
KEPT_S: Final = 3600.0
"""For so long a key signs until it is read again: after two rotations what it has signed is not accepted any more."""


class SpillKey:
    """Signs and checks; the secret is read once, and again as the times above say.

    What was signed before the key was rotated is accepted, by the version AWSPREVIOUS of the secret.

    Args:
        arn: of the secret.
        aws: the variables of the environment that are AWS's.
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(
        self, arn: str, aws: Mapping[str, str], clock: Callable[[], float] = time.time
    ) -> None:
        self._arn, self._aws, self._clock = arn, aws, clock
        self._stored: StoredText | None = None
        self._keys: list[bytes] = []
        self._read_at = 0.0
        self._compared_at = -AGAIN_AFTER_S

    def __repr__(self) -> str:
        return f"SpillKey({self._arn})"

    def signature(self, body: str) -> str:
        """The signature of a message, in hexadecimal; the same for the same body.

        Raises:
            RedisUnavailable: the key cannot be read.
        """
        if not self._keys:
            self._read()
        elif not self._is_within(self._read_at, KEPT_S):
            try:
                self._read()
            except RedisUnavailable:
                # What the known one signs is accepted, as long as it is the one before.
                self._read_at = self._clock() - KEPT_S + AGAIN_AFTER_S
        return _signature(self._keys[0], body)

    def accepts(self, body: str, signature: str) -> bool:
        """Whether the key, or the one before it, has signed this very body.

        Raises:
            RedisUnavailable: the key cannot be read.
        """
        if not self._keys:
            self._read()
        if self._fits(body, signature):
            return True
        if self._is_within(self._compared_at, AGAIN_AFTER_S):
            return False
        self._read(with_previous=True)
        self._compared_at = self._read_at
        return self._fits(body, signature)

    def _is_within(self, since: float, seconds: float) -> bool:
        """Whether less time has passed since then; never after the clock was set back."""
        return 0 <= self._clock() - since < seconds

    def _fits(self, body: str, signature: str) -> bool:
        given = signature.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_signature(key, body).encode(), given) for key in self._keys)

    def _read(self, *, with_previous: bool = False) -> None:
        if self._stored is None:
            from kiqbridge.config.credentials.aws_request import StoredText  # noqa: PLC0415 - see the module

            self._stored = StoredText(self._arn, "", self._aws)
        stored, within_s = self._stored, deadline.bounded(READ_WITHIN_S)
        keys = [stored.read(within_s)]
        if with_previous:
            with contextlib.suppress(RedisMisconfigured):  # it was never rotated
                keys.append(stored.read(within_s, VersionStage="AWSPREVIOUS"))
        if not keys[0]:
            raise RedisMisconfigured(
                f"{stored.name} is empty: put a long random text into it, which signs spilled messages"
            )
        self._keys = [key.encode() for key in keys if key]
        self._read_at = self._clock()


def _signature(key: bytes, body: str) -> str:
    return hmac.digest(key, body.encode("utf-8", "surrogatepass"), "sha256").hex()


def spill_key_of(environ: Mapping[str, str]) -> SpillKey | None:
    """The key that the environment names, None if it names none; nothing is read."""
    arn = read_setting(ForFunctions.spill_key_secret_arn, environ)
    return SpillKey(arn, aws_variables(environ)) if arn else None


SPILLED: Final = "spill"
"""`Record.source` of what comes back out of a spill queue."""
ENVELOPE: Final = "kiqbridge_spill"
VERSION: Final = 1
SIGNATURE: Final = "KiqbridgeSignature"
"""The attribute of a message that has its signature."""
_SIGNATURE_BYTES: Final = len(SIGNATURE) + len("String") + 64
"""SQS counts name, type and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent.

    Attributes:
        id: names it; the same if it has to be sent again.
        body: ASCII, which SQS takes whatever the arguments of the jobs are.
        group: messages of one group keep their order; None = of a queue that is not FIFO.
        places: the records that are in it, by their places among those of the push.
        last: the last job, with the key by which it is found in Redis; of a tick, that is found.
        tick: stands beside the jobs.
    """

    id: str
    body: str
    group: str | None
    places: Sequence[int]
    last: JobRequest
    tick: Tick | None

    @property
    def size(self) -> int:
        """Bytes of it as SQS counts them, with a signature."""
        return len(self.body) + _SIGNATURE_BYTES


def message_of(
    records: Sequence[Record],
    places: Sequence[int],
    *,
    by: str,
    now: float,
    group: str | None = None,
) -> Message:
    """The message of the records at these places, which have one sender; several only if none has a tick.

    Args:
        records: of the push; their jobs have jids.
        places: at least one.
        by: who accepted them.
        now: when, epoch seconds.
        group: of a FIFO queue.
    """
    name = os.urandom(16).hex()
    record = records[places[0]]
    jobs = [job for place in places for job in records[place].jobs]
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
        "jobs": [_kept(job.item_with_jid, now) for job in jobs],
    }
    if (tick := record.tick) is not None:
        content["tick"] = {
            "schedule": tick.schedule,
            "at": tick.at,
            "on_stale": "ignore" if tick.ignore_stale else "error",
            "overlap": tick.overlap,
            **({} if tick.max_age_s is None else {"max_age_s": tick.max_age_s}),
        }
    last, own = jobs[-1], Identity(Source.SPILL, (name,)).of_job(len(jobs) - 1)
    return Message(
        id=name,
        body=json.dumps(content, separators=(",", ":")),
        group=group,
        places=places,
        last=replace(last, dedupe_key=last.dedupe_key or own),
        tick=tick,
    )


def _kept(item: Mapping[str, Any], now: float) -> Mapping[str, Any]:
    """The item; it expires when it would if it were pushed now."""
    if item.get(EXPIRES_IN) is None:
        return item
    kept = dict(item)
    set_expiry(kept, kept.get("at", now))
    del kept[EXPIRES_IN]  # it would count from the push
    return kept


def read(event: Mapping[str, Any], key: SpillKey | None) -> Delivery:
    """A record for each message of a batch; one that fails stays in the queue, and SQS delivers it again.

    Args:
        event: the batch.
        key: signed them; None = there is none, and what is signed is refused.

    Raises:
        RedisUnavailable: the key cannot be read.
    """
    messages = event["Records"]
    is_fifo = str(messages[0].get("eventSourceARN", "")).endswith(".fifo")
    return Delivery(
        source=SPILLED,
        records=[_record(message, index, key) for index, message in enumerate(messages)],
        answering=Answering.IN_ORDER if is_fifo else Answering.EACH,
        answer=batch_answer,
    )


def _record(message: Mapping[str, Any], index: int, key: SpillKey | None) -> Record:
    where = f"Records[{index}].body"
    content = None
    body = str(message.get("body"))
    error = EventError(f"{where}: {fault}") if (fault := _fault(message, body, key)) else None
    if error is None:
        try:
            content = json_text.loads(body.encode())
        except (PayloadError, ValueError):
            error = EventError(f"{where}: {shorten(body)} is no JSON text")
    return Record(
        source=SPILLED,
        event=message,
        job=content,
        where=where,
        origin=str(message.get("eventSourceARN", "")),
        item=str(message.get("messageId", "")),
        group=message.get("attributes", {}).get("MessageGroupId"),
        error=error,
        reader=read_spilled,
    )


def signature_of(message: Mapping[str, Any]) -> str:
    """What stands in its attribute, as Lambda delivers it; "" = nothing."""
    attribute = mapping_or_empty(message.get("messageAttributes")).get(SIGNATURE)
    return str(mapping_or_empty(attribute).get("stringValue") or "")


def _fault(message: Mapping[str, Any], body: str, key: SpillKey | None) -> str:
    """Why a message is not taken for one that was spilled; "" = it is."""
    signature = signature_of(message)
    name = ForFunctions.spill_key_secret_arn.env[0]
    if key is None and signature:
        return (
            f"it is signed, and there is no key to check that: set {name} to the ARN of the stack's secret "
            "(its output SpillKeySecretArn), which you must be allowed to read"
        )
    if key is None or (signature and key.accepts(body, signature)):
        return ""
    return (
        f"it {'has not the signature of' if signature else 'is not signed with'} the key that {name} names, so that "
        "anybody may have written it, and its jobs are not enqueued (docs/explanation/spill.md, Signatures, says when that happens)"
    )


def read_spilled(record: Record, now: float) -> Record:
    """The record of a message with its jobs, checked as if they came from outside.

    Raises:
        EventError: it is no message of the spill queue.
        PayloadError: one of its jobs cannot be one.
    """
    content = record.job
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
    jobs, tick = parse_jobs({key: content[key] for key in content if key != ENVELOPE}, now)
    sender = Sender(*(str(envelope.get(name, "")) for name in Sender._fields))
    if tick is None:
        guards, name = envelope.get("guards"), envelope.get("id")
        is_named = isinstance(name, str) and bool(name)
        if not isinstance(guards, list) or len(guards) != len(jobs) or not is_named:
            raise EventError(
                f"{ENVELOPE}: needs its id, and in guards one element for each of the {len(jobs)} jobs"
            )
        own = Identity(Source.SPILL, (str(name),))
        jobs = [
            replace(job, dedupe_key=_read(guard, own.of_job(index)))
            for index, (job, guard) in enumerate(zip(jobs, guards, strict=True))
        ]
    return replace(record, jobs=jobs, tick=tick, accepted_from=sender)


def _written(dedupe_key: str | Identity | None) -> list[str] | None:
    if not dedupe_key:
        return None
    identity = own_key(dedupe_key) if isinstance(dedupe_key, str) else dedupe_key
    return [str(identity.source), *identity.parts]


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
