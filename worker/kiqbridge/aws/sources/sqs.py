"""Messages of SQS queues: each is a record; a queue that is FIFO keeps the order of its groups.

The identity is the message's id, which SQS keeps at each delivery, also in a dead-letter queue to which
it moved the message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import shorten


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each message; what cannot be read fails alone."""
    messages = event["Records"]
    is_fifo = str(messages[0].get("eventSourceARN", "")).endswith(".fifo")
    return Delivery(
        source="sqs",
        records=[_record(message, index) for index, message in enumerate(messages)],
        answering=Answering.IN_ORDER if is_fifo else Answering.EACH,
        answer=batch_answer,
    )


def batch_answer(results: Sequence[Result]) -> dict[str, list[dict[str, str]]]:
    """The partial batch response: the records that are to be delivered again."""
    return {
        "batchItemFailures": [
            {"itemIdentifier": result.record.item or ""} for result in results if result.error
        ]
    }


def _record(message: Mapping[str, Any], index: int) -> Record:
    identifier, arn = str(message.get("messageId", "")), str(message.get("eventSourceARN", ""))
    body, error = _parsed(message.get("body"), f"Records[{index}].body")
    return Record(
        source="sqs",
        event={**message, "body": body},
        job=body,
        where=f"Records[{index}].body",
        origin=arn,
        identity=Identity(
            Source.SQS_FIFO if arn.endswith(".fifo") else Source.SQS, (arn, identifier)
        ),
        item=identifier,
        group=message.get("attributes", {}).get("MessageGroupId"),
        error=error,
    )


def _parsed(body: object, where: str) -> tuple[Any, EventError | None]:
    if not isinstance(body, str):
        return None, EventError(f"{where}: {shorten(body)} is not the text of a message")
    try:
        return json_text.loads(body.encode()), None
    except (PayloadError, ValueError):
        return body, None  # a mapping may take the text
