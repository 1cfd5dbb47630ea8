"""Who sent an event, and what of it asks for jobs: one file a family of services.

`aws.enqueue` calls `read`. A source must never know of Redis, allow-lists or mappings. Each module has
`read(event) -> Delivery | Done`, raises EventError for what it cannot read as a whole, and is loaded by
the first event that needs it.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Delivery, Done
from kiqbridge.aws.sources.http_rules import HttpRules
from kiqbridge.errors import EventError
from kiqbridge.wire.payload import shorten

_OF_RECORDS: Final[Mapping[str, str]] = {"aws:sqs": "sqs"}
"""`eventSource` (or `EventSource`) of the records → module."""

DEFAULT_HTTP: Final = HttpRules()


def read(event: object, http: HttpRules = DEFAULT_HTTP) -> Delivery | Done:
    """Read an event of any source that is known.

    Args:
        event: as Lambda passes it.
        http: which HTTP requests may ask for jobs.

    Raises:
        EventError: it is of no known form, or cannot be read.
    """
    name = _module_of(event)
    module = importlib.import_module(f"{__name__}.{name}")
    if name == "http":
        return cast("Delivery | Done", module.read(event, http))
    return cast("Delivery | Done", module.read(event))


def failure_answer(event: Mapping[str, Any], error: Exception) -> Any:
    """The answer to an HTTP request when the function itself fails; see `is_http`."""
    module = importlib.import_module(f"{__name__}.http")
    return module.failed(event, error)


def is_http(event: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether an event is an HTTP request, which is answered whatever happens.

    An event to API Gateway's authorizers (with `methodArn` or `routeArn`) or of a WebSocket is none.
    """
    if not isinstance(event, Mapping) or "methodArn" in event or "routeArn" in event:
        return False
    context = event.get("requestContext")
    return isinstance(context, Mapping) and (
        "http" in context or "elb" in context or "httpMethod" in event
    )


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
    if is_http(event):
        return "http"
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
    return (
        f"event: {shorten(event)} holds no job; it needs the keys class and args, or jobs with a list "
        "of such objects"
    )
