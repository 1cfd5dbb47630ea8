"""Messages of SQS queues and SNS topics: each is a job, carries an event, or is mapped.

SQS: a queue that is FIFO keeps the order of its groups. The identity is the queue and the message's id,
which SQS keeps at each delivery and when it moves the message into a dead-letter queue
(`DeadLetterQueueSourceArn` names the queue from which it came). A message that is *redriven* out of that
queue is a new one for SQS, with an id of its own; nothing of the first one is left. A FIFO queue's
deduplication id is no identity either: SQS forgets it after five minutes, so the next message with the
same content (the same job next week) has the same one, and in a dead-letter queue it is replaced. What
must not run twice even then carries a `dedupe_key`. A body that carries an event of SNS, S3 or EventBridge
goes by that event's identity, which survives also a redrive (`unwrap`).

SNS: the identity is the topic and the message's id, which SNS keeps at each attempt, in each subscription,
and in the envelope that it puts into a queue. A message that is delivered raw comes without the envelope,
and goes by the id of the queue's message.

What the text of a message carries: a job, or an event that another service sent through it.

    S3 → SQS        EventBridge → SQS        SNS → SQS        S3 → SNS → SQS        function → SQS

The record keeps the carrier's source, origin and place in the answer: they are what IAM has checked,
while anybody who may send a message can write one that looks like S3's. Event, job, facets and identity
are those of the inner event, so that it is the same event by whatever way it comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Answering, Delivery, Record, Result, carry
from kiqbridge.aws.sources import BY_KEYS, family, reading
from kiqbridge.errors import EventError
from kiqbridge.runtime.redaction import shorten_argument
from kiqbridge.wire.guards import Identity, Source

_TEST_EVENTS = {
    "s3:TestEvent": "the test event that S3 sends when notifications are set up",
    "autoscaling:TEST_NOTIFICATION": "the test notification of Auto Scaling",
}
"""`Event` of a message → what it is."""


def unwrap(record: Record, value: object) -> Record:
    """The record of a message, or that of the event which its value carries.

    Args:
        record: as it is if its value carries no event of another service.
        value: of the message's text.
    """
    if not isinstance(value, (dict, Mapping)) or is_job_form(value):
        return record
    try:
        inner = _inner(value, record.where)
    except EventError as error:
        return replace(record, job=None, error=error)
    if inner is not None:
        return carry(record, inner)
    test = value.get("Event")
    if isinstance(test, str) and test in _TEST_EVENTS:
        return replace(record, job=None, ignored=_TEST_EVENTS[test])
    return record


def _inner(value: Mapping[str, object], where: str) -> Record | None:
    """The record of the carried event; its module is loaded by the first message that needs it."""
    if value.get("Type") == "Notification" and "TopicArn" in value:
        return notification(value, where)
    if "detail-type" in value:
        bus = family("event_bridge")
        is_known = bus.is_of_schedule(value) or bus.is_event(value)
        read = bus.part if is_known else None
    elif "Records" in value:
        read = family("s3").carried if _is_of_s3(value["Records"]) else None
    else:
        read = family("destination").part if BY_KEYS["destination"](value) else None
    return None if read is None else read(value, where)


def _is_of_s3(records: object) -> bool:
    """Whether they are a notification of S3."""
    first = records[0] if isinstance(records, list) and records else None
    return isinstance(first, Mapping) and first.get("eventSource") == "aws:s3"


def notification(content: Mapping[str, Any], where: str) -> Record:
    """The record of a notification of SNS, wherever it comes from.

    Raises:
        EventError: what SNS always writes is missing.
    """
    topic = reading.text_at(content, "TopicArn", where)
    identifier = reading.text_at(content, "MessageId", where)
    message = content.get("Message")
    if not isinstance(message, str):
        reading.text_at(content, "Message", where)  # refuses it
    value = reading.parsed(str(message))
    facets = attributes_of(content.get("MessageAttributes"), "Value")
    facets |= reading.facets_of(topic=topic, subject=content.get("Subject"))
    record = Record(
        source="sns",
        event={**content, "Message": value},
        job=value,
        where=f"{where}.Message",
        origin=topic,
        facets=facets,
        identity=Identity(Source.SNS, (topic, identifier)),
        trace=reading.trace_of(facets),
    )
    if isinstance(value, Mapping) and value.get("Type") == "Notification" and "TopicArn" in value:
        return record  # no service sends an envelope in an envelope; a mapping may take it
    return unwrap(record, value)


def attributes_of(attributes: object, key: str) -> dict[str, str]:
    """Message attributes that are texts or numbers, as `attribute.NAME`."""
    if not attributes:
        return {}
    return {
        f"attribute.{name}": value[key]
        for name, value in reading.mapping_or_empty(attributes).items()
        if isinstance(value, (dict, Mapping))
        and isinstance(value.get(key), str)
        and value.get("Type") != "Binary"
    }


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each message, of which SNS brings one; what cannot be read fails alone."""
    if reading.service_of(event["Records"][0]) == "aws:sns":
        return Delivery(
            source="sns",
            records=reading.records_of(
                event,
                "sns",
                lambda record, where: notification(
                    reading.mapping_at(record, "Sns", where), f"{where}.Sns"
                ),
            ),
        )
    arns = [reading.mapping_or_empty(message).get("eventSourceARN") for message in event["Records"]]
    is_fifo = any(str(arn).endswith(".fifo") for arn in arns)
    return Delivery(
        source="sqs",
        records=reading.records_of(event, "sqs", _message, _about),
        answering=Answering.IN_ORDER if is_fifo else Answering.EACH,
        of_event_source=True,
        answer=batch_answer,
    )


def batch_answer(results: Sequence[Result]) -> dict[str, list[dict[str, str]]]:
    """The partial batch response: the records that are to be delivered again.

    One without an id is named by the empty text, at which Lambda takes the whole batch for failed.
    """
    return {
        "batchItemFailures": [
            {"itemIdentifier": result.record.item or ""} for result in results if result.error
        ]
    }


def _about(message: Mapping[str, Any]) -> dict[str, Any]:
    """What answers, and the order of a group, go by."""
    group = reading.mapping_or_empty(message.get("attributes")).get("MessageGroupId")
    return {
        "item": reading.text_or_none(message.get("messageId")),
        "group": reading.text_or_none(group),
    }


def _message(message: Mapping[str, Any], where: str) -> Record:
    arn = reading.text_at(message, "eventSourceARN", where)
    identifier = reading.text_at(message, "messageId", where)
    text = message.get("body")
    if not isinstance(text, str):
        raise EventError(f"{where}.body: {shorten_argument(text)} is not the text of a message")
    body = reading.parsed(text)
    attributes = reading.mapping_or_empty(message.get("attributes"))
    queue = reading.text_or_none(attributes.get("DeadLetterQueueSourceArn")) or arn
    group = reading.text_or_none(attributes.get("MessageGroupId"))
    facets = attributes_of(message.get("messageAttributes"), "stringValue")
    facets["queue"] = arn
    if group:
        facets["group"] = group
    source = Source.SQS_FIFO if arn.endswith(".fifo") else Source.SQS
    record = Record(
        source="sqs",
        event={**message, "body": body},
        job=body,
        where=f"{where}.body",
        origin=arn,
        facets=facets,
        identity=Identity(source, (queue, identifier)),
        trace=reading.trace_of(facets, attributes.get("AWSTraceHeader")),
        item=identifier,
        group=group,
    )
    return unwrap(record, body)
