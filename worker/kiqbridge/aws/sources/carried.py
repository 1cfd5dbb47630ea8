"""What the text of a message carries: a job, or an event that another service sent through it.

    S3 → SQS        EventBridge → SQS        SNS → SQS        S3 → SNS → SQS        function → SQS

The record keeps the carrier's source, origin and place in the answer: they are what IAM has checked,
while anybody who may send a message can write one that looks like S3's. Event, job, facets and identity
are those of the inner event, so that it is the same event by whatever way it comes.
"""

from collections.abc import Mapping
from dataclasses import replace

from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError

_TEST_EVENTS = {
    "s3:TestEvent": "the test event that S3 sends when notifications are set up",
    "autoscaling:TEST_NOTIFICATION": "the test notification of Auto Scaling",
}
"""`Event` of a message → what it is."""


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
    """Modules are loaded by the first message that needs them."""
    if value.get("Type") == "Notification" and "TopicArn" in value:
        from kiqbridge.aws.sources import queues  # noqa: PLC0415

        return queues.notification(value, where)
    if "detail-type" in value:
        from kiqbridge.aws.sources import event_bridge  # noqa: PLC0415

        is_known = event_bridge.is_of_schedule(value) or event_bridge.is_event(value)
        return event_bridge.part(value, where) if is_known else None
    if "Records" in value:
        from kiqbridge.aws.sources import s3  # noqa: PLC0415

        return s3.carried(value, where) if s3.is_notification(value) else None
    if "requestContext" in value and "requestPayload" in value:
        from kiqbridge.aws.sources import destination  # noqa: PLC0415

        return destination.part(value, where)
    return None
