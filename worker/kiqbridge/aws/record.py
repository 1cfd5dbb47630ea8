"""What the sources make of an event: records, each of which asks for jobs and is answered for.

A source (`sources/`) knows the form of one service's events and nothing of jobs; what follows it
(`requests`, `allow_list`, `enqueue`) knows nothing of services. Answers and log lines show ids, classes and
queues of jobs, and no arguments.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from kiqbridge.aws.job_forms import JobRequest, Tick
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.guards import Identity

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


@dataclass(slots=True, kw_only=True)
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
        jobs: what it asks for, once it was read (`requests.read_jobs`): all of them or none are enqueued.
        tick: stands beside the jobs; then they are enqueued once for it.
        reader: makes it what `requests.read_jobs` makes of others, if its form is one of its own.
        accepted_from: of a message of the spill queue, whose record it was: what is allowed goes by that.
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
    jobs: Sequence[JobRequest] = ()
    tick: Tick | None = None
    accepted_from: Sender | None = None
    reader: "Callable[[Record, float], Record] | None" = None

    @property
    def sender(self) -> Sender:
        """Whose record it is."""
        return self.accepted_from or Sender(self.source, self.origin, self.alias)


def leaves(record: Record) -> Iterator[Record]:
    """The record itself, or those of its parts that have none."""
    if not record.parts:
        yield record
    for part in record.parts:
        yield from leaves(part)


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of a record: its jobs, or the error for which nothing of it was enqueued.

    Attributes:
        record: what was delivered, with the jobs that it asks for.
        jobs: what became of its jobs; empty also if a mapping's filter leaves it out.
        spilled: its jobs, if they are in a spill queue and not in Redis yet.
        left_out: why its tick enqueued nothing: `stale` (too old, and it says `"on_stale": "ignore"`),
            `paused` (its schedule is) or `skipped` (somebody asked for that); "" else.
        error: refused or failed.
    """

    record: Record
    jobs: Sequence[Enqueued] = ()
    spilled: Sequence[Enqueued] = ()
    left_out: str = ""
    error: Exception | None = None

    def jobs_left_out(self, why: str) -> list[dict[str, Any]]:
        """The jobs of a tick that was left out for this reason, as the answer describes them."""
        tick = self.record.tick
        if tick is None or self.left_out != why:
            return []
        jobs = [job.answered(0) for job in self.record.jobs]
        about = {"schedule": tick.schedule, "at": tick.at}
        return [{"class": job.job_class, "queue": job.queue, **about} for job in jobs]


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
        ignored: why the event asks for nothing and is answered all the same, for the log line: a service's
            test event, a ping, a health check; "" = it has records.
        of_event_source: whether an event source mapping delivers it, which reads the answer's `batchItemFailures`
            only with ReportBatchItemFailures: without, an answer is a success whatever it names.
    """

    source: str
    records: Sequence[Record] = ()
    answering: Answering = Answering.WHOLE
    answer: Callable[[Sequence[Result]], Any] | None = None
    success: Any = None
    ignored: str = ""
    of_event_source: bool = False


def ignored(source: str, why: str, answer: Any = None) -> Delivery:
    """An event that asks for nothing, and what the function returns."""
    return Delivery(source=source, ignored=why, answer=lambda _results: answer)


class Answer(TypedDict):
    """What became of each job of an event; one that middleware stopped is in no list."""

    enqueued: list[dict[str, Any]]
    """`jid`, `class`, `queue`, and `at` (epoch seconds) if it runs later."""
    duplicates: list[dict[str, Any]]
    """`jid` of the job that was enqueued before, or that has the lock of a unique one, `class`, `queue`."""
    throttled: NotRequired[list[dict[str, Any]]]
    """`class` and `queue` of what a throttle has left out. Only if there is any."""
    stale: list[dict[str, Any]]
    """`class`, `queue`, and `schedule` and `at` of a tick so old that it may have run already; only
    one that says `"on_stale": "ignore"`, others are an error."""
    paused: NotRequired[list[dict[str, Any]]]
    """`class`, `queue`, `schedule` and `at` of a tick of a paused schedule. The ledger stores it, and it is not
    enqueued later. Only if there is one."""
    skipped: NotRequired[list[dict[str, Any]]]
    """Ticks that an operator asked to skip, in the form of `paused`."""
    spilled: NotRequired[list[dict[str, Any]]]
    """Jobs that were accepted while Redis is away, and are enqueued when it is back, in the form of `enqueued`. Only
    if there are any."""


def answer_of(results: Sequence[Result]) -> Answer:
    """The answer of a direct invocation, and of an HTTP request that is accepted."""
    jobs = [job for result in results for job in result.jobs]
    answer = Answer(
        enqueued=[with_time(job) for job in jobs if not job.duplicate],
        duplicates=[described(job) for job in jobs if job.duplicate and job.left_out != "throttle"],
        stale=[job for result in results for job in result.jobs_left_out("stale")],
    )
    if paused := [job for result in results for job in result.jobs_left_out("paused")]:
        answer["paused"] = paused
    if skipped := [job for result in results for job in result.jobs_left_out("skipped")]:
        answer["skipped"] = skipped
    if throttled := [
        {"class": job.job_class, "queue": job.queue} for job in jobs if job.left_out == "throttle"
    ]:
        answer["throttled"] = throttled
    if spilled := [with_time(job) for result in results for job in result.spilled]:
        answer["spilled"] = spilled
    return answer


def with_time(job: Enqueued) -> dict[str, Any]:
    """The fields of `described`, and the time at which the job runs, if it is later."""
    shown = described(job)
    if job.at is not None:
        shown["at"] = job.at
    return shown


def described(job: Enqueued) -> dict[str, Any]:
    """A job as answers and log lines show it: no arguments."""
    return {"jid": job.jid, "class": job.job_class, "queue": job.queue}


def carry(carrier: Record, inner: Record) -> Record:
    """The inner record as the carrier brings it."""
    facets = {**inner.facets, **carrier.facets}
    facets["inner"] = inner.facets.get("inner", inner.source)
    return replace(
        inner,
        source=carrier.source,
        origin=carrier.origin,
        facets=facets,
        identity=inner.identity or carrier.identity,
        item=carrier.item,
        group=carrier.group,
        parts=[carry(carrier, part) for part in inner.parts],
        trace=carrier.trace or inner.trace,
    )
