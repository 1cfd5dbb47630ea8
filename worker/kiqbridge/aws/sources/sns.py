"""Messages of SNS topics: the message is a job, or carries an event, or is mapped.

The identity is the topic and the message's id, which SNS keeps at each attempt, in each subscription, and
in the envelope that it puts into a queue. A message that is delivered raw comes without the envelope,
and goes by the id of the queue's message.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources.carried import unwrap
from kiqbridge.aws.sources.reading import (
    facets_of,
    mapping_at,
    parsed,
    records_of,
    text_at,
    trace_of,
)
from kiqbridge.errors import EventError
from kiqbridge.wire.guards import Identity, Source

_SERVICE: Final = "aws:sns"


def read(event: Mapping[str, Any]) -> Delivery:
    """A record for each message; SNS invokes a function with one."""
    return Delivery(
        source="sns",
        records=[
            _record(record, f"Records[{index}]", error)
            for index, (record, error) in enumerate(records_of(event, _SERVICE))
        ],
    )


def part(notification: Mapping[str, Any], where: str) -> Record:
    """The record of a notification, wherever it comes from.

    Raises:
        EventError: what SNS always writes is missing.
    """
    topic = text_at(notification, "TopicArn", where)
    identifier = text_at(notification, "MessageId", where)
    value = parsed(_message(notification, where))
    facets = {
        **_attributes(notification.get("MessageAttributes")),
        **facets_of(topic=topic, subject=notification.get("Subject")),
    }
    record = Record(
        source="sns",
        event={**notification, "Message": value},
        job=value,
        where=f"{where}.Message",
        origin=topic,
        facets=facets,
        identity=Identity(Source.SNS, (topic, identifier)),
        trace=trace_of(facets),
    )
    if isinstance(value, Mapping) and value.get("Type") == "Notification" and "TopicArn" in value:
        return record  # an envelope in an envelope is nobody's form; a mapping may take it
    return unwrap(record, value)


def _record(record: Mapping[str, Any], where: str, error: EventError | None) -> Record:
    if error is None:
        try:
            return replace(part(mapping_at(record, "Sns", where), f"{where}.Sns"), source="sns")
        except EventError as unreadable:
            error = unreadable
    return Record(source="sns", event=record, where=where, error=error)


def _message(notification: Mapping[str, Any], where: str) -> str:
    message = notification.get("Message")
    return message if isinstance(message, str) else text_at(notification, "Message", where)


def _attributes(attributes: object) -> dict[str, str]:
    """Message attributes that are texts, as `attribute.NAME`."""
    if not isinstance(attributes, Mapping):
        return {}
    return {
        f"attribute.{name}": value["Value"]
        for name, value in attributes.items()
        if isinstance(value, Mapping)
        and value.get("Type") != "Binary"
        and isinstance(value.get("Value"), str)
    }
