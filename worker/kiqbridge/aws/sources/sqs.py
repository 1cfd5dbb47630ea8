"""Messages of SQS queues: each is a record; a queue that is FIFO keeps the order of its groups.

The identity is the queue and the message's id, which SQS keeps at each delivery and when it moves the
message into a dead-letter queue (`DeadLetterQueueSourceArn` names the queue from which it came). A
message that is *redriven* out of that queue is a new one for SQS, with an id of its own; nothing of
the first one is left. A FIFO queue's deduplication id is no identity either: SQS forgets it after five
minutes, so the next message with the same content (the same job next week) has the same one, and in a
dead-letter queue it is replaced. What must not run twice even then carries a `dedupe_key`.

A body that carries an event of SNS, S3 or EventBridge goes by that event's identity, which survives
also a redrive (`carried`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.aws.sources.carried import unwrap
from kiqbridge.aws.sources.reading import parsed, records_of, text_at, trace_of
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import shorten_argument

_SERVICE: Final = "aws:sqs"


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each message; what cannot be read fails alone."""
    messages = list(records_of(event, _SERVICE))
    is_fifo = any(str(message.get("eventSourceARN")).endswith(".fifo") for message, _ in messages)
    return Delivery(
        source="sqs",
        records=[
            _record(message, f"Records[{index}]", error)
            for index, (message, error) in enumerate(messages)
        ],
        answering=Answering.IN_ORDER if is_fifo else Answering.EACH,
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


def _record(message: Mapping[str, Any], where: str, error: EventError | None) -> Record:
    item, group = message.get("messageId"), None
    attributes = message.get("attributes")
    if isinstance(attributes, dict) and isinstance(attributes.get("MessageGroupId"), str):
        group = attributes["MessageGroupId"]
    item = item if isinstance(item, str) else None
    if error is None:
        try:
            return _message(message, where, group)
        except EventError as unreadable:
            error = unreadable
    return Record(source="sqs", event=message, where=where, item=item, group=group, error=error)


def _message(message: Mapping[str, Any], where: str, group: str | None) -> Record:
    arn, identifier = (
        text_at(message, "eventSourceARN", where),
        text_at(message, "messageId", where),
    )
    text = message.get("body")
    if not isinstance(text, str):
        raise EventError(f"{where}.body: {shorten_argument(text)} is not the text of a message")
    body = parsed(text)
    attributes = message.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    moved_from = attributes.get("DeadLetterQueueSourceArn")
    queue = moved_from if isinstance(moved_from, str) and moved_from else arn
    given = message.get("messageAttributes")
    facets = _attributes(given) if given else {}
    facets["queue"] = arn
    if group:
        facets["group"] = group
    record = Record(
        source="sqs",
        event={**message, "body": body},
        job=body,
        where=f"{where}.body",
        origin=arn,
        facets=facets,
        identity=Identity(
            Source.SQS_FIFO if arn.endswith(".fifo") else Source.SQS, (queue, identifier)
        ),
        item=identifier,
        group=group,
        trace=trace_of(facets, attributes.get("AWSTraceHeader")),
    )
    return unwrap(record, body)


def _attributes(attributes: object) -> dict[str, str]:
    """Message attributes that are texts or numbers, as `attribute.NAME`."""
    if not isinstance(attributes, dict):
        return {}
    return {
        f"attribute.{name}": value["stringValue"]
        for name, value in attributes.items()
        if isinstance(value, dict) and isinstance(value.get("stringValue"), str)
    }
