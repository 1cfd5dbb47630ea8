"""Messages of the spill queue: jobs that this function accepted while Redis was away.

A message that fails stays in the queue; after its visibility timeout SQS delivers it again.
"""

from collections.abc import Mapping
from typing import Any

from kiqbridge.aws.record import SPILLED, Answering, Delivery, Record
from kiqbridge.aws.sources.sqs import batch_answer
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import shorten


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each message."""
    messages = event["Records"]
    is_fifo = str(messages[0].get("eventSourceARN", "")).endswith(".fifo")
    return Delivery(
        source=SPILLED,
        records=[_record(message, index) for index, message in enumerate(messages)],
        answering=Answering.IN_ORDER if is_fifo else Answering.EACH,
        answer=batch_answer,
    )


def _record(message: Mapping[str, Any], index: int) -> Record:
    where = f"Records[{index}].body"
    content: object = None
    error = None
    try:
        content = json_text.loads(str(message.get("body")).encode())
    except (PayloadError, ValueError):
        error = EventError(f"{where}: {shorten(message.get('body'))} is no JSON text")
    return Record(
        source=SPILLED,
        event=message,
        job=content,
        where=where,
        origin=str(message.get("eventSourceARN", "")),
        item=str(message.get("messageId", "")),
        group=message.get("attributes", {}).get("MessageGroupId"),
        error=error,
    )
