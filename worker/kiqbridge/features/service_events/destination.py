"""Lambda destinations: what became of an asynchronous invocation of another function.

If it succeeded and what the function returned is a job, that job is enqueued. What a function was invoked
with when it failed is no job: a mapping decides. The identity is the function, the request's id,
which Lambda keeps at each attempt, and how it ended. The records come directly, or through a queue, a
topic or a bus (`queues`, `bus`).
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources.reading import facets_of, mapping_at, text_at
from kiqbridge.wire.guards import Identity, Source

_SUCCESS: Final = "Success"


def read(event: Mapping[str, Any]) -> Delivery:
    """One record.

    Raises:
        EventError: what Lambda always writes is missing.
    """
    return Delivery(source="destination", records=[part(event, "")])


def part(event: Mapping[str, Any], where: str) -> Record:
    """The record of a result, wherever it comes from.

    Raises:
        EventError: what Lambda always writes is missing.
    """
    context = mapping_at(event, "requestContext", where)
    inside = f"{where}.requestContext" if where else "requestContext"
    arn, request = text_at(context, "functionArn", inside), text_at(context, "requestId", inside)
    condition = text_at(context, "condition", inside)
    is_success = condition == _SUCCESS
    return Record(
        source="destination",
        event=event,
        job=event.get("responsePayload") if is_success else None,
        where=f"{where}.responsePayload" if where else "responsePayload",
        origin=arn,
        facets=facets_of(condition=condition, function=arn),
        identity=Identity(Source.DESTINATION, (arn, request, condition)),
    )
