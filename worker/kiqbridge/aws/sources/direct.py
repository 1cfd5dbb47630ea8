"""Direct invocation: the event is the job, or several, or a tick of EventBridge Scheduler."""

from collections.abc import Mapping
from typing import Any

from kiqbridge.aws.record import Delivery, Record


def read(event: Mapping[str, Any]) -> Delivery:
    """The event itself asks for jobs."""
    return Delivery(source="direct", records=[Record(source="direct", event=event, job=event)])
