"""What dead-letter queues hold, as the events that failed, and pushing them again, or only looking.

Services put the event into envelopes of their own: Lambda's OnFailure destination into `requestPayload`,
Lambda's dead-letter queue, EventBridge and Scheduler as the body with attributes beside it; SQS moves
the message itself, which keeps its id.
"""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from kiqbridge.aws.job_forms import Tick
from kiqbridge.aws.push import Pusher, StaleTick, in_order, looked_up, stale_tick
from kiqbridge.aws.record import Answering, Delivery, Record, Result, alias_in
from kiqbridge.client.client import Client
from kiqbridge.errors import EventError
from kiqbridge.features.spill import form
from kiqbridge.features.spill.form import ENVELOPE, SpillKey
from kiqbridge.features.spill.queues import REASON, name_in
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity, Source, keep_s
from kiqbridge.wire.payload import TICK_HORIZON_S

_MOVED_FROM: Final = "DeadLetterQueueSourceArn"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that failed.

    Attributes:
        event: as the function was given it.
        envelope: who put it there: `spill`, `sqs`, `on-failure`, `lambda`, `scheduler`, `rule`.
        reason: why, in the words of the service; "" = it did not say.
        alias: by which the function was invoked with it, as `Sender.alias`, so far as the service says.
    """

    event: Any
    envelope: str
    reason: str = ""
    alias: str = ""


def dead_letter_of(
    message: Mapping[str, Any], queue_arn: str, spill_queues: Container[str] | None
) -> DeadLetter:
    """The event in a message that was received from a dead-letter queue.

    Args:
        message: as SQS' ReceiveMessage returns it, with all attributes.
        queue_arn: of that queue.
        spill_queues: names (`spill_queue.name_in`) of the queues whose messages may be spilled ones; None = any, since
            signatures are checked.

    Raises:
        EventError: its payload was cut off, so that it is unknown what it asked for; or it looks like a spilled one,
            and comes from a queue that is no spill queue.
    """
    attributes = {
        name: str(value.get("StringValue", ""))
        for name, value in message.get("MessageAttributes", {}).items()
    }
    content = _parsed(message["Body"])
    reason = attributes.get("ERROR_MESSAGE") or attributes.get(REASON) or ""
    if isinstance(content, Mapping) and ENVELOPE in content:
        event = _as_delivered(message, queue_arn)
        first = event["Records"][0]["eventSourceARN"]
        if spill_queues is not None and name_in(first) not in spill_queues:
            raise EventError(
                f"it says that it was spilled, by which it may name any source, and {first} is no spill queue that is "
                "known here: if it is one, set KIQBRIDGE_SPILL_QUEUE_URL or KIQBRIDGE_SPILL_FIFO_QUEUE_URL to its "
                "address, or KIQBRIDGE_SPILL_KEY_SECRET_ARN to the secret whose key signs its messages"
            )
        return DeadLetter(event=event, envelope="spill", reason=reason)
    if message.get("Attributes", {}).get(_MOVED_FROM):
        return DeadLetter(event=_as_delivered(message, queue_arn), envelope="sqs")
    if isinstance(content, Mapping) and "requestPayload" in content:
        context = content.get("requestContext")
        context = context if isinstance(context, Mapping) else {}
        return DeadLetter(
            event=content["requestPayload"],
            envelope="on-failure",
            reason=str(context.get("condition") or ""),
            alias=alias_in(context.get("functionArn")),
        )
    if "SCHEDULE_ARN" in attributes:
        return DeadLetter(
            event=_of_scheduler(message["Body"], attributes), envelope="scheduler", reason=reason
        )
    for name, envelope in (("RULE_ARN", "rule"), ("RequestID", "lambda")):
        if name in attributes:
            return DeadLetter(event=content, envelope=envelope, reason=reason)
    return DeadLetter(event=_as_delivered(message, queue_arn), envelope="sqs")


def _parsed(text: str) -> object:
    try:
        return json_text.loads(text.encode())
    except ValueError:
        return text


def _of_scheduler(body: str, attributes: Mapping[str, str]) -> object:
    """The Input; what stands in it for the time and the schedule is filled in if it was not yet."""
    if attributes.get("IS_PAYLOAD_TRUNCATED", "").lower() == "true":
        raise EventError(
            f"the Input of {attributes['SCHEDULE_ARN']} was cut off by Scheduler; invoke the function with the "
            "Input of the schedule and the tick's time by hand"
        )
    for placeholder, name in (
        ("<aws.scheduler.scheduled-time>", "SCHEDULED_TIME"),
        ("<aws.scheduler.schedule-arn>", "SCHEDULE_ARN"),
    ):
        if name in attributes:
            body = body.replace(placeholder, attributes[name])
    return _parsed(body)


def _as_delivered(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """The message as Lambda would deliver it from the queue in which it was first."""
    attributes = message.get("Attributes", {})
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "body": message["Body"],
                "attributes": attributes,
                "messageAttributes": {
                    name: {"stringValue": value.get("StringValue"), "dataType": "String"}
                    for name, value in message.get("MessageAttributes", {}).items()
                },
                "eventSource": "aws:sqs",
                "eventSourceARN": attributes.get(_MOVED_FROM) or queue_arn,
            }
        ]
    }


@dataclass(slots=True)
class ReplayPusher:
    """Pushes as `Pusher`; what is too old to know whether it was enqueued is refused, unless asked for.

    Attributes:
        pusher: pushes.
        client: knows what was enqueued.
        only_looks: push nothing, and answer what would become of it; a new job has the jid "".
        takes_stale: enqueue also what is too old, once per message however often it is replayed.
        clock: epoch seconds.
        key: signed what was spilled, as of `form.read`.
        spill_queues: as of `dead_letter_of`.
        is_spilled: the next event comes out of a spill queue.
        sent_at: when the next event was sent, epoch seconds, as its queue has it.
    """

    pusher: Pusher
    client: Client
    _: KW_ONLY
    only_looks: bool
    takes_stale: bool
    key: SpillKey | None = None
    spill_queues: Container[str] | None = ()
    clock: Callable[[], float] = time.time
    is_spilled: bool = False
    sent_at: float | None = None

    def read_spilled(self, event: Any) -> Delivery | None:
        """The records of the event, if it comes out of a spill queue."""
        return form.read(event, self.key) if self.is_spilled else None

    def push(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        """Push the jobs of records one record after another."""
        return in_order(records, answering, lambda place: self._one(records[place], by))

    def _one(self, record: Record, by: str) -> Result:
        if (error := self._too_old(record)) is not None:
            if not self.takes_stale:
                return Result(record=record, error=error)
            record = _without_tick(record)
        if self.only_looks:
            if record.tick is not None:
                known: Sequence[str | None] = self._known_tick(record.tick, len(record.jobs))
            else:
                known = self.client.find_enqueued(
                    [job.item for job in record.jobs], [job.dedupe_key for job in record.jobs]
                )
            return looked_up(record, known)
        [result] = self.pusher.push([record], Answering.WHOLE, by)
        if self.takes_stale and isinstance(result.error, StaleTick):  # by the clock of Redis
            [result] = self.pusher.push([_without_tick(record)], Answering.WHOLE, by)
        return result

    def _too_old(self, record: Record) -> StaleTick | None:
        now = self.clock()
        if record.tick is not None:
            is_old = record.tick.instant < now - TICK_HORIZON_S
            return stale_tick(record.tick) if is_old else None
        sent_at = self.sent_at
        keys = [job.dedupe_key for job in record.jobs if job.dedupe_key]
        kept = min((keep_s(key) for key in keys), default=None)
        if sent_at is None or kept is None or now - sent_at < kept:
            return None
        return StaleTick(
            f"it was sent {(now - sent_at) / 86_400:.0f} days ago, and what identifies it is remembered for "
            f"{kept // 86_400}, so it may have been enqueued; to enqueue it, replay it with --stale"
        )

    def _known_tick(self, tick: Tick, count: int) -> Sequence[str | None]:
        found = self.client.find_tick(tick.schedule, tick.instant)
        if found is None:
            return [None] * count
        return [*found, *[""] * count][:count]


def _without_tick(record: Record) -> Record:
    """The record with its jobs under a guard, which makes a second replay find them."""
    tick = record.tick
    if tick is None:
        return record
    own = Identity(Source.SPILL, (f"stale {tick.instant} {tick.schedule}",))
    jobs = [replace(job, dedupe_key=own.of_job(index)) for index, job in enumerate(record.jobs)]
    return replace(record, jobs=jobs, tick=None)
