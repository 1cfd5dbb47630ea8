"""Who sent an event, and what of it asks for jobs: one module a family of services.

`aws.enqueue` calls `read`. A source must never know of Redis, allow-lists or mappings. Each module has
`read(event) -> Delivery`, raises EventError for what it cannot read as a whole, and is loaded by
the first event that needs it. Direct invocations, buses and queues are here; of the other families the forms
alone, what reads them is a feature.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeGuard

from kiqbridge import seams
from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Delivery, answer_of, ignored
from kiqbridge.aws.sources.reading import service_of
from kiqbridge.errors import EventError
from kiqbridge.runtime.redaction import shorten

OF_RECORDS: Final[dict[str, str]] = {
    "aws:sqs": "queues",
    "aws:sns": "queues",
    "aws:s3": "s3",
    "aws:dynamodb": "streams",
    "aws:kinesis": "streams",
}
"""`eventSource` (or `EventSource`) of the records → family; records of others are `services`."""

WARM_UPS: Final = ("keep-warm", "keep_warm", "warmer", "warmup", "serverless-plugin-warmup")
"""What tools that keep functions warm send: as a key, or as the `source`."""


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


WARM_UP: Final = "warm-up"
"""In the place of a family: pings that keep an environment warm are answered, and nothing is enqueued."""

BY_KEYS: Final[dict[str, Callable[[Mapping[str, Any]], bool]]] = {
    "direct": is_job_form,
    "event_bridge": lambda event: "detail-type" in event,
    "http": is_http,
    "destination": lambda event: "requestContext" in event and "requestPayload" in event,
    "logs": lambda event: "awslogs" in event,
    "s3_batch": lambda event: "invocationSchemaVersion" in event and "tasks" in event,
    WARM_UP: lambda event: event.get("source") in WARM_UPS or any(key in event for key in WARM_UPS),
}
"""Family → whether an event is one of its own; the first that says so reads it."""

FEATURES: Final[dict[str, str]] = {
    "http": "http_events",
    "logs": "log_events",
    "s3": "s3_events",
    "s3_batch": "s3_events",
    "streams": "streams",
    "destination": "service_events",
    "services": "service_events",
}
"""Family → the feature that reads its events; others are modules of this package."""

DEFAULT_AUTH: Final = ("iam", "jwt", "authorizer")
"""How callers of HTTP must have been authenticated, see `http_request.Caller`."""


def read(event: object, auth: Sequence[str] = DEFAULT_AUTH) -> Delivery:
    """Read an event of any source that is known.

    Args:
        event: as Lambda passes it.
        auth: how callers of HTTP must have been authenticated.

    Raises:
        EventError: it is of no known form, or cannot be read.
    """
    if isinstance(event, list) and event and service_of(event[0]) in OF_RECORDS:
        # A pipe's list of records, of which it reads `batchItemFailures` as an event source mapping does.
        event = {"Records": event}
    name = _family_of(event)
    if name == WARM_UP:
        return ignored(WARM_UP, "a ping that keeps the function warm", answer_of([]))
    if name == "services":
        return _of_service(event)
    more = [auth] if name == "http" else []
    delivery: Delivery = family(name).read(event, *more)
    return delivery


@cache
def family(name: str) -> Any:
    """The module that reads the events of a family.

    Raises:
        EventError: its feature is not here.
    """
    if (feature := FEATURES.get(name)) is None:
        return importlib.import_module(f"{__name__}.{name}")
    if (found := seams.named(feature)) is None:
        raise EventError(
            f"event: the feature {feature}, which reads events of this form, is not here; reinstall kiqbridge"
        )
    return found.load(found.events[name])


def failure_answer(event: Mapping[str, Any], error: Exception) -> Any:
    """The answer to an HTTP request when the function itself fails; see `is_http`."""
    return family("http").failed(event, error)


def _of_service(event: Any) -> Delivery:
    """An event of a service that the feature knows, or of a caller that invoked the function directly."""
    delivery: Delivery | None = None
    if seams.named(FEATURES["services"]):
        delivery = family("services").read(event)
    if delivery is None and isinstance(event, Mapping) and "Records" in event:
        first = event["Records"][0]
        if not isinstance(first, Mapping):
            raise EventError(f"Records[0]: {shorten(first)} is not an object")
        service = first.get("eventSource") or first.get("EventSource")
        raise EventError(
            f"Records: records of {shorten(service)} are of no service that this function knows; invoke it "
            "with the job itself, or send them through a queue, a topic or a bus with a mapping"
        )
    return delivery or family("direct").read(event)


def _family_of(event: object) -> str:
    if not isinstance(event, Mapping):
        return "services" if _is_list_of_others(event) else "direct"
    if len(event) == 1 and "Records" in event:  # no other reader takes that
        return _of_records(event["Records"])
    for name, is_its_own in BY_KEYS.items():
        if is_its_own(event):
            return name
    return _of_records(event["Records"]) if "Records" in event else "services"


def _is_list_of_others(event: object) -> bool:
    """Whether an event is a list of objects that are no jobs: AppSync sends such ones."""
    first = event[0] if isinstance(event, list) and event else None
    return isinstance(first, Mapping) and not is_job_form(first)


def _of_records(records: object) -> str:
    if not isinstance(records, list) or not records:
        raise EventError(
            f"Records: {shorten(records)} is not a list with at least one record; an invocation "
            "without records (a tumbling window's last one, for example) asks for no job: turn the "
            "window off in the event source mapping"
        )
    return OF_RECORDS.get(service_of(records[0]), "services")
