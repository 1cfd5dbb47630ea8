"""What makes two deliveries of a job the same one, so that the second does not enqueue it again.

A guard is known by where its name comes from (the caller's own key, an event's id), by the class of
the job, and by that name: `order-5` of a mail says nothing about `order-5` of a bill.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LONGEST_FIELD: Final = 256
"""Longer ones are kept as their digest, so that the memory of a guard is bounded."""


class Source(StrEnum):
    """Where the name in a guard comes from; names of two sources are never the same."""

    KEY = "key"
    """The caller's `dedupe_key`."""
    EVENT = "event"
    """The id of an event of a bus, and the job's place in it."""
    REPLAY = "replay"
    """The same of an event that is replayed from an archive, with the replay's name."""
    SQS = "sqs"
    """The message's id in its queue."""
    TASK = "task"
    """The digest of the token of a task of Step Functions that waits for the job."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two deliveries of a job the same one, besides its class.

    Attributes:
        source: where the parts come from.
        parts: texts, always as many for one source.
    """

    source: Source
    parts: tuple[str, ...]

    def of_job(self, index: int) -> "Identity":
        """That of job number `index` among those that one event, message or record brings."""
        return Identity(self.source, (str(index), *self.parts))


def guard_field(dedupe_key: str | Identity, job_class: str) -> str:
    """The name under which a guard is kept; two different guards never have the same one.

    Each part but the last has its length in front: a separator could be part of a name.
    """
    identity = dedupe_key if isinstance(dedupe_key, Identity) else own_key(dedupe_key)
    *first, last = (job_class, *identity.parts)
    text = ":".join([identity.source, *(f"{len(part)}:{part}" for part in first), last])
    encoded = text.encode()
    if len(encoded) <= LONGEST_FIELD:
        return text
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def task_identity(token: str) -> Identity:
    """That of a job that a task waits for; the token, a secret, cannot be read out of it."""
    return Identity(Source.TASK, (hashlib.sha256(token.encode()).hexdigest(),))


def own_key(dedupe_key: str) -> Identity:
    """That of a key that the caller chose."""
    return Identity(Source.KEY, (dedupe_key,))


def event_identity(event_id: str, replay: str | None = None) -> Identity:
    """That of an event of a bus; a replay enqueues it once more, under the replay's name."""
    if replay is None:
        return Identity(Source.EVENT, (event_id,))
    return Identity(Source.REPLAY, (event_id, replay))
