"""Messages of SQS queues and SNS topics: each is a job, carries an event, or is mapped.

SQS: a queue that is FIFO keeps the order of its groups. The identity is the queue and the message's id,
which SQS keeps at each delivery and when it moves the message into a dead-letter queue
(`DeadLetterQueueSourceArn` names the queue from which it came). A message that is *redriven* out of that
queue is a new one for SQS, with an id of its own; nothing of the first one is left. A FIFO queue's
deduplication id is no identity either: SQS forgets it after five minutes, so the next message with the
same content (the same job next week) has the same one, and in a dead-letter queue it is replaced. What
must not run twice even then carries a `dedupe_key`. A body that carries an event of SNS, S3 or EventBridge
goes by that event's identity, which survives also a redrive (`carried`).

SNS: the identity is the topic and the message's id, which SNS keeps at each attempt, in each subscription,
and in the envelope that it puts into a queue. A message that is delivered raw comes without the envelope,
and goes by the id of the queue's message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.aws.sources import reading
from kiqbridge.aws.sources.carried import attributes_of, notification, unwrap
from kiqbridge.errors import EventError
from kiqbridge.runtime.redaction import shorten_argument
from kiqbridge.wire.guards import Identity, Source


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
