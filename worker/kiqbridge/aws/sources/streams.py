"""What streams have in common: records in an order, and an answer that is a checkpoint.

Lambda delivers again from the lowest sequence number that is answered, whatever came after it; so after
a failure nothing is enqueued, and only that one is answered.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.errors import EventError


def delivery(source: str, event: Mapping[str, Any], records: Sequence[Record]) -> Delivery:
    """The records of one shard.

    Raises:
        EventError: of a tumbling window, which expects a state as its answer.
    """
    if "window" in event:
        raise EventError(
            "window: a tumbling window expects a state, which this function does not keep; take "
            "TumblingWindowInSeconds out of the event source mapping"
        )
    return Delivery(
        source=source, records=records, answering=Answering.IN_ORDER, answer=checkpoint_answer
    )


def checkpoint_answer(results: Sequence[Result]) -> dict[str, list[dict[str, str]]]:
    """The partial batch response: the first record that failed.

    One without a sequence number is named by the empty text, at which Lambda repeats the whole batch.
    """
    failed = [result.record.item or "" for result in results if result.error][:1]
    return {"batchItemFailures": [{"itemIdentifier": item} for item in failed]}
