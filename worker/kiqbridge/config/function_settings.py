"""The rows of the table that the functions alone read, from their environment."""

import math
from collections.abc import Callable
from typing import Any, Final

from kiqbridge.config.parsers import switch, whole_number, words
from kiqbridge.config.queue_limits import parse_queue_limits
from kiqbridge.config.setting import Rows
from kiqbridge.errors import ConfigError
from kiqbridge.wire.queues import parse_queue

FUNCTION_SETTINGS: Final = Rows("function")

_HTTP_AUTH: Final = ("iam", "jwt", "authorizer", "alb", "none")


def _seconds(
    kind: str, hint: str, is_allowed: Callable[[float], bool]
) -> Callable[[Any, str], float]:
    def parse(value: Any, source: str) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not is_allowed(seconds):
            raise ConfigError(f"{source}: {value!r} is not a number of seconds{kind}; write {hint}")
        return seconds

    return parse


def _ways_of_authentication(value: Any, source: str) -> tuple[str, ...]:
    chosen: tuple[str, ...] = words("http_auth")(value, source)
    unknown = [each for each in chosen if each not in _HTTP_AUTH]
    if unknown or not chosen:
        raise ConfigError(
            f"http_auth: {(unknown or [value])[0]!r} is no way of authentication (from {source}); write some "
            f"of {', '.join(_HTTP_AUTH)}, with commas between them"
        )
    return chosen


def _queue_names(value: Any, source: str) -> tuple[str, ...]:
    return tuple(parse_queue(each, source=source)[0] for each in str(value).split())


ALLOWED_CLASSES: Final = FUNCTION_SETTINGS.add(
    name="allowed_classes",
    parse=words("allowed_classes"),
    help="job classes that may be enqueued, as comma-separated globs; empty allows nothing",
)

ALLOWED_QUEUES: Final = FUNCTION_SETTINGS.add(
    name="allowed_queues",
    parse=words("allowed_queues"),
    help="queues that may be pushed to, as comma-separated globs; empty allows nothing",
)

MAPPINGS: Final = FUNCTION_SETTINGS.add(
    name="mappings",
    help="file beside the function that maps events to jobs",
    default_text="mappings.yml",
)

TICK_AHEAD_S: Final = FUNCTION_SETTINGS.add(
    name="tick_ahead_s",
    parse=_seconds(
        " from 0",
        "how far a tick may lie ahead of the clock of Redis, such as 60",
        lambda seconds: seconds >= 0,
    ),
    default=60,
    help="seconds that a tick may lie ahead of the clock of Redis; others are refused",
)

TICK_OFFSET_S: Final = FUNCTION_SETTINGS.add(
    name="tick_offset_s",
    parse=_seconds(
        "",
        "how far the clock of the schedules is ahead of the clock of Redis (below 0: behind), or leave it unset",
        math.isfinite,
    ),
    default=0,
    help="seconds by which the clock of the schedules is ahead of the clock of Redis, below 0: behind; set by "
    "`kiqbridge dev --at`, not for production",
)

HTTP_AUTH: Final = FUNCTION_SETTINGS.add(
    name="http_auth",
    parse=_ways_of_authentication,
    default="iam,jwt,authorizer",
    help="how callers of HTTP must have been authenticated: any of iam, jwt, authorizer, alb (the load "
    "balancer's rules do it) and none (anybody may enqueue), with commas between them",
)

MAX_EVENT_BYTES: Final = FUNCTION_SETTINGS.add(
    name="max_event_bytes",
    parse=whole_number("max_event_bytes", 1),
    default=1_048_576,
    help="largest text in an event that is parsed (body, message, data of a record), in bytes; a larger one "
    "is refused before",
)

LOG_ARGUMENTS: Final = FUNCTION_SETTINGS.add(
    name="log_arguments",
    parse=switch("log_arguments"),
    default=False,
    help="true = messages about refused events show values of theirs, shortened, in the log and in answers",
)

TRACING: Final = FUNCTION_SETTINGS.add(
    name="tracing",
    parse=switch("tracing"),
    default=False,
    help="true = each invocation is a subsegment of X-Ray, and jobs without a trace of their own carry its "
    "header; needs aws-xray-sdk in a layer",
)

QUEUE_LIMITS: Final = FUNCTION_SETTINGS.add(
    name="queue_limits",
    parse=parse_queue_limits,
    help="waiting jobs from which the function pushes no more to a queue, and what it does then, such as "
    "default=100000:reject,low=50000:delay:60,mail=1000:spill; the queue may be a glob",
)

SPILL_QUEUE_URL: Final = FUNCTION_SETTINGS.add(
    name="spill_queue_url",
    help="SQS queue that takes jobs while Redis is away; empty = none, and the service delivers again",
)

SPILL_FIFO_QUEUE_URL: Final = FUNCTION_SETTINGS.add(
    name="spill_fifo_queue_url",
    help="the same for sources that keep an order, a FIFO queue; empty = their records wait where they are",
)

STACK: Final = FUNCTION_SETTINGS.add(
    name="stack",
    help="name of the CloudFormation stack, under which the function publishes the schedules of its template; "
    "empty = it publishes none",
)

SERVICE: Final = FUNCTION_SETTINGS.add(
    name="service",
    default="kiqbridge-enqueue",
    env=("POWERTOOLS_SERVICE_NAME",),
    help="name of the function in its log lines and metrics",
)

FUNCTION_LOG_LEVEL: Final = FUNCTION_SETTINGS.add(
    name="function_log_level",
    default="INFO",
    env=("POWERTOOLS_LOG_LEVEL",),
    help="least important level that the function logs",
)

METRICS_NAMESPACE: Final = FUNCTION_SETTINGS.add(
    name="metrics_namespace",
    default="Kiqbridge",
    env=("POWERTOOLS_METRICS_NAMESPACE",),
    help="CloudWatch namespace of the function's metrics",
)

MONITOR_QUEUES: Final = FUNCTION_SETTINGS.add(
    name="monitor_queues",
    parse=_queue_names,
    help="queues whose jobs are demand for the workers that are scaled, with blanks between them, as in "
    "KIQBRIDGE_QUEUES; empty = all; read by the monitor function alone",
)
