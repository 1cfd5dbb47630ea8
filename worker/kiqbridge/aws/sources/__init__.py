"""Who sent an event, and what of it asks for jobs: one file a family of services.

`aws.enqueue` calls `read`. A source must never know of Redis, allow-lists or mappings. Each module has
`read(event) -> Delivery | Done`, raises EventError for what it cannot read as a whole, and is loaded by
the first event that needs it.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Delivery, Done
from kiqbridge.errors import EventError
from kiqbridge.wire.payload import shorten

_OF_RECORDS: Final[Mapping[str, str]] = {"aws:sqs": "sqs"}
"""`eventSource` (or `EventSource`) of the records → module."""


def read(event: object) -> Delivery | Done:
    """Read an event of any source that is known.

    Raises:
        EventError: it is of no known form, or cannot be read.
    """
    name = _module_of(event)
    module = importlib.import_module(f"{__name__}.{name}")
    return cast("Delivery | Done", module.read(event))


def _module_of(event: object) -> str:
    if not isinstance(event, Mapping):
        raise EventError(
            f"event: {shorten(event)} is not an object; send a job such as "
            '{"class": "NightlyReport", "args": []}, or several as {"jobs": […]}'
        )
    if is_job_form(event):
        return "direct"
    if "detail-type" in event:
        return "bus"
    if "Records" in event:
        return _of_records(event["Records"])
    raise EventError(_why_no_job(event))


def _of_records(records: object) -> str:
    first = records[0] if isinstance(records, Sequence) and records else None
    service: object = None
    if isinstance(first, Mapping):
        service = first.get("eventSource") or first.get("EventSource")
    if (module := _OF_RECORDS.get(str(service))) is None:
        raise EventError(
            f"Records: records of {shorten(service)} are not supported by this function yet; "
            "invoke it with the job itself"
        )
    return module


def _why_no_job(event: Mapping[str, Any]) -> str:
    if "requestContext" in event or "httpMethod" in event:
        return (
            "requestContext: HTTP requests are not supported by this function yet; invoke it "
            "with the job itself"
        )
    return (
        f"event: {shorten(event)} holds no job; it needs the keys class and args, or jobs with a list "
        "of such objects"
    )
