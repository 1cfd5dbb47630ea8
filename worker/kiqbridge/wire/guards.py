"""What makes two deliveries of a job the same one, so that the second does not enqueue it again.

A guard is known by where its name comes from (the caller's own key, an event's id), by class and queue of
the job, and by that name: `order-5` of a mail says nothing about `order-5` of a bill. What a sender may enqueue
is a matter of class and queue, so no caller uses up a name for jobs that only others may enqueue.
"""

import functools
from enum import StrEnum
from typing import Final, Self

from kiqbridge.runtime.digests import sha256
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.payload import DEFAULT_OPTIONS

LONGEST_FIELD: Final = 256
"""A longer name is kept as its digest, so that the memory of a guard is bounded."""


DAY_S: Final = 86_400


class Source(StrEnum):
    """Where the name in a guard comes from; names of two sources are never the same.

    Attributes:
        keep_s: seconds for which a guard is kept after its job was enqueued. Longer than the source may deliver
            again, dead-letter queues at their longest retention included; each further day costs memory
            (docs/reference/events.md).
    """

    keep_s: int

    def __new__(cls, value: str, days: int = 0) -> Self:
        """A source, and for how many days its guards are kept."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.keep_s = days * DAY_S
        return made

    # How late a caller may repeat is unknown: as long as an event, whose detail may carry a key, too.
    KEY = "key", 17
    """The caller's `dedupe_key`."""
    # A day of attempts of EventBridge, 6 hours in Lambda's own queue, 14 days in a dead-letter queue.
    EVENT = "event", 17
    """The id of an event of a bus, and the job's place in it."""
    REPLAY = "replay", 17
    """As EVENT, for an event that is replayed from an archive; the replay's name is added."""
    # As a tick: a day of attempts, 14 days in a dead-letter queue.
    SCHEDULE = "schedule", 17
    """A rule's or schedule's ARN, the time for which it was due, the replay's name or nothing."""
    # 14 days at most from its arrival, those in a dead-letter queue included; 12 hours of being in flight.
    SQS = "sqs", 15
    """The message's id in its queue."""
    # The 14 days begin anew when it comes into the dead-letter queue.
    SQS_FIFO = "sqs_fifo", 29
    """The message's id in its queue, which is FIFO."""
    # The spill queue may be FIFO.
    SPILL = "spill", 29
    """The id under which a job that nothing else identifies was sent to the spill queue."""
    # The token may come through a queue of any kind.
    TASK = "task", 29
    """The digest of the token of a task of Step Functions that waits for the job."""
    # As of the caller's own key.
    HTTP = "http", 17
    """A request's `Idempotency-Key`, its address and its caller; whatever class its job has."""
    # 23 days of attempts of SNS, then 14 days in a queue or a dead-letter queue.
    SNS = "sns", 38
    """The topic's ARN and the message's id."""
    # It may come through SNS.
    S3 = "s3", 38
    """Bucket, key, what happened, and the sequencer: the same by whatever way it comes."""
    # A stream keeps its records for a day.
    DYNAMODB = "dynamodb", 15
    """The stream's ARN and the id of the change."""
    # Lambda tries for as long as the stream keeps a record: a day by default. Longer than 15 days is
    # possible, but what was enqueued is repeated only if somebody lets the stream be read anew.
    KINESIS = "kinesis", 15
    """The stream's ARN, shard and sequence number."""
    # As of S3.
    DESTINATION = "destination", 38
    """The function's ARN, the request's id, and how the invocation ended."""
    # Asynchronous invocations: 6 hours in Lambda's own queue, 14 days in a dead-letter queue.
    SERVICE = "service", 15
    """The name of any other service and what identifies its event, as a JSON list of texts."""


WITH_QUEUE: Final = "@"
"""A mark behind the source, in the name of a guard whose first part is a queue."""

_OF_ANY_CLASS: Final = (Source.HTTP,)
"""A key is used up by a request, also for another one that asks for a job of another class."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two deliveries of a job the same one, besides its class and queue.

    Attributes:
        source: where the parts come from.
        parts: texts, always as many for one source.
    """

    source: Source
    parts: tuple[str, ...]

    def of_job(self, index: int) -> "Identity":
        """The identity of job number `index` among the jobs that one event, message or record brings."""
        return Identity(self.source, (str(index), *self.parts))


def guard_field(
    dedupe_key: str | Identity, job_class: str, queue: str = DEFAULT_OPTIONS["queue"]
) -> str:
    """The name under which a guard is kept; two different guards never have the same one.

    Each part but the last has its length in front: a separator could be part of a name. A queue other than
    `default` comes first, which a mark behind the source says.
    """
    identity = dedupe_key if isinstance(dedupe_key, Identity) else own_key(dedupe_key)
    source = str(identity.source)  # the hash of an enum is computed in Python
    parts = identity.parts
    if identity.source in _OF_ANY_CLASS:
        parts = ("", *parts)
    elif queue == DEFAULT_OPTIONS["queue"]:
        parts = (job_class, *parts)
    else:
        source, parts = f"{source}{WITH_QUEUE}", (queue, job_class, *parts)
    text = _before_last(source, parts[:-1]) + parts[-1]
    encoded = text.encode()
    if len(encoded) <= LONGEST_FIELD:
        return text
    return f"sha256:{sha256(encoded).hexdigest()}"


@functools.lru_cache(maxsize=1_000)
def _before_last(source: str, first: tuple[str, ...]) -> str:
    """Remembered: all but the last part is the same of nearly all messages of a queue."""
    return ":".join([source, *[f"{len(part)}:{part}" for part in first], ""])


def task_identity(token: str) -> Identity:
    """The identity of a job that a task waits for; the token, a secret, cannot be read out of it."""
    return Identity(Source.TASK, (sha256(token.encode()).hexdigest(),))


def keep_s(dedupe_key: str | Identity) -> int:
    """Seconds for which a guard of this name is kept."""
    return (dedupe_key.source if isinstance(dedupe_key, Identity) else Source.KEY).keep_s


def own_key(dedupe_key: str) -> Identity:
    """The identity of a key that the caller chose."""
    return Identity(Source.KEY, (dedupe_key,))


def event_identity(event_id: str, replay: str | None = None) -> Identity:
    """The identity of an event of a bus; a replay enqueues the job once more, under the replay's name."""
    if replay is None:
        return Identity(Source.EVENT, (event_id,))
    return Identity(Source.REPLAY, (event_id, replay))
