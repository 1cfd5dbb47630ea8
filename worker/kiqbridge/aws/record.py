"""What the sources make of an event: records, each of which asks for jobs and is answered for.

A source (`sources/`) knows the form of one service's events and nothing of jobs; what follows it
(`requests`, `allow_list`, `enqueue`) knows nothing of services.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.errors import KiqbridgeError
from kiqbridge.records import dataclass
from kiqbridge.wire.guards import Identity

SPILLED: Final = "spill"
"""`Record.source` of what comes back out of a spill queue."""


_WITH_ALIAS: Final = 8
"""Parts of such an ARN: `arn:aws:lambda:REGION:ACCOUNT:function:NAME:ALIAS`."""


class Sender(NamedTuple):
    """Whose records those are: what they may enqueue goes by it.

    Attributes:
        source: name of the service's form, such as `sqs`.
        origin: `Record.origin`.
        alias: alias or version by which the function was invoked; "" = none, or `$LATEST`. Lambda writes it
            into the context, whatever the event says.
    """

    source: str
    origin: str = ""
    alias: str = ""


DIRECT: Final = Sender("direct")
"""Who invokes the function with the job itself."""


def alias_in(arn: object) -> str:
    """The alias or version in the ARN of a function, as `Sender.alias`."""
    parts = arn.split(":") if isinstance(arn, str) else []
    return parts[7] if len(parts) == _WITH_ALIAS and parts[7] != "$LATEST" else ""


class Answering(StrEnum):
    """How a service is answered when a record fails."""

    WHOLE = "whole"
    """The invocation fails, nothing is enqueued, and the service delivers all of it again."""
    EACH = "each"
    """The others are enqueued; `batchItemFailures` names those that failed, which are delivered again."""
    IN_ORDER = "in order"
    """As EACH, but after a failure nothing of the same group is enqueued: it is delivered again, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that a service delivered.

    `source` and `origin` are those of the service that called, as it writes them. Whatever that
    service carries from another one (a message of a queue can look like a notification of S3) is in
    `event`, `job` and `facets` only, so that a forged message gets no rights but the queue's. Who
    invokes the function with an event of its own choice writes all of them; not `alias`.

    Attributes:
        source: name of the service's form, such as `sqs`: in mappings, rules, log lines and metrics.
        event: what a mapping's expressions see: the record, or the whole event, with texts that are
            JSON parsed, as the page of the source says. If it carries an event of another service,
            that one, as it looks when it comes directly.
        job: the part that may be a job by itself (`job_forms.is_job_form`): message, detail, body.
        where: path of that part, the beginning of messages about it; "" if it is the event itself.
        origin: who sent it, as rules name it: ARN of a queue, topic, stream or schedule, `s3:BUCKET`,
            name of a bus' source, `POST /path`.
        facets: by what else a mapping is found, such as `detail-type`, `bucket`, `key`; `inner` is the
            form that is carried (`sns`, `bus`, `s3`, …).
        identity: what makes two deliveries the same; None = each delivery is a new one.
        item: name in `batchItemFailures`.
        group: records of one group keep their order; see `Answering.IN_ORDER`.
        error: why it cannot be read; then `job` is None, and only this record is refused.
        fingerprint: how the jids of its jobs begin, so that a duplicate's jid shows whether the earlier
            record had the same content; "" = jids are as random as ever.
        trace: attributes that its jobs carry, see `trace.attributes`.
        ignored: why nothing is to be enqueued (a service's test event); "" else.
        no_job: the message of its refusal, if `job` is none and no mapping takes it; "" = a general one.
        alias: as `Sender.alias`.
        parts: several records that one message carries: all of them or none are enqueued. Then `job`
            is None, and each part has an identity of its own.
    """

    source: str
    event: Any
    job: object = None
    where: str = ""
    origin: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)
    identity: Identity | None = None
    item: str | None = None
    group: str | None = None
    error: KiqbridgeError | None = None
    fingerprint: str = ""
    trace: Mapping[str, str] = field(default_factory=dict)
    ignored: str = ""
    no_job: str = ""
    alias: str = ""
    parts: "Sequence[Record]" = ()

    @property
    def sender(self) -> Sender:
        """Whose record it is."""
        return Sender(self.source, self.origin, self.alias)


def leaves(record: Record) -> Iterator[Record]:
    """The record itself, or those of its parts that have none."""
    if not record.parts:
        yield record
    for part in record.parts:
        yield from leaves(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a record: its jobs, or the error for which nothing of it was enqueued.

    Attributes:
        record: what was delivered.
        jobs: what became of its jobs; empty also if a mapping's filter leaves it out.
        stale: the tick that is too old and says `"on_stale": "ignore"`, as the answer describes it.
        paused: the tick of a schedule that is paused, as the answer describes it.
        skipped: the tick that somebody asked to skip, likewise.
        error: refused or failed.
        ignored: why nothing was to be enqueued, "" else.
        spilled: its jobs, if they are in a spill queue and not in Redis yet.
    """

    record: Record
    jobs: Sequence[Enqueued] = ()
    spilled: Sequence[Enqueued] = ()
    stale: Sequence[Mapping[str, Any]] = ()
    paused: Sequence[Mapping[str, Any]] = ()
    skipped: Sequence[Mapping[str, Any]] = ()
    error: Exception | None = None
    ignored: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One invocation's records.

    Attributes:
        source: name of the service's form.
        records: in the order in which they were delivered.
        answering: what a failure means.
        answer: makes the service's answer of the results of all records, in their order; it must not
            raise. None = `success`, and an error is raised.
        success: what is answered if there is no `answer` and no error; None = `Answer`.
    """

    source: str
    records: Sequence[Record]
    answering: Answering = Answering.WHOLE
    answer: Callable[[Sequence[Result]], Any] | None = None
    success: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An event that asks for nothing and is answered: a service's test event, a ping, a health check.

    Attributes:
        source: name of the service's form.
        why: for the log line.
        answer: what the function returns.
    """

    source: str
    why: str
    answer: Any
