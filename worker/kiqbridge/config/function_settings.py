"""The rows of the table that the functions alone read, from their environment.

How many jobs may wait in a queue before the enqueue function pushes no more, and what it does then.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.config.parsers import Parser, switch, whole_number, words
from kiqbridge.config.setting import Reader, Setting, rows
from kiqbridge.errors import ConfigError
from kiqbridge.feature import Feature
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.queues import parse_queue

_ENTRY: Final = re.compile(
    r"(?P<queues>[^=,:\s]+)=(?P<most>\d+):(?P<action>[a-z]+)(?::(?P<delay>\d+))?", re.ASCII
)
_FORM: Final = "write QUEUE=NUMBER:reject, QUEUE=NUMBER:delay:SECONDS or QUEUE=NUMBER:spill"


class DepthAction(StrEnum):
    """What becomes of a job for a queue that is at its limit."""

    REJECT = "reject"
    """It is an error, so that the caller or the service sends it again."""
    DELAY = "delay"
    """It is put into the schedule, from where it comes into the queue some seconds later."""
    SPILL = "spill"
    """It waits in the spill queue until the queue is below its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimit:
    """The limit of one queue, or of all that match.

    Attributes:
        queues: a name, or a glob.
        most: number of waiting jobs from which no more is pushed.
        action: what becomes of further jobs.
        delay_s: seconds, for DELAY.
    """

    queues: str
    most: int
    action: DepthAction
    delay_s: int = 0


def parse_queue_limits(value: Any, source: str, _name: str = "") -> tuple[QueueLimit, ...]:
    """Read `default=100000:reject,low=50000:delay:60,mail=1000:spill`.

    Raises:
        ConfigError: an entry has another form.
    """
    return tuple(_parsed(entry.strip(), source) for entry in str(value).split(",") if entry.strip())


def limit_of(limits: Sequence[QueueLimit], queue: str) -> QueueLimit | None:
    """The first that is about this queue."""
    return next((each for each in limits if fnmatchcase(queue, each.queues)), None)


def _parsed(entry: str, source: str) -> QueueLimit:
    match = _ENTRY.fullmatch(entry)
    action = match["action"] if match else None
    if match is None or action not in set(DepthAction):
        raise ConfigError(
            f"queue_limits: {entry!r} is no limit of a queue (from {source}); {_FORM}"
        )
    delay_s = int(match["delay"] or 0)
    if (action == DepthAction.DELAY) != (delay_s > 0):
        raise ConfigError(
            f"queue_limits: {entry!r}: seconds belong to delay, and only there (from {source}); {_FORM}"
        )
    return QueueLimit(
        queues=match["queues"],
        most=int(match["most"]),
        action=DepthAction(match["action"]),
        delay_s=delay_s,
    )


_HTTP_AUTH: Final = ("iam", "jwt", "authorizer", "alb", "none")


def _seconds(kind: str, hint: str, is_allowed: Callable[[float], bool]) -> Parser:
    def parse(value: Any, source: str, _name: str) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not is_allowed(seconds):
            raise ConfigError(f"{source}: {value!r} is not a number of seconds{kind}; write {hint}")
        return seconds

    return parse


def _ways_of_authentication(value: Any, source: str, name: str) -> tuple[str, ...]:
    chosen = words(value, source, name)
    unknown = [each for each in chosen if each not in _HTTP_AUTH]
    if unknown or not chosen:
        raise ConfigError(
            f"{name}: {(unknown or [value])[0]!r} is no way of authentication (from {source}); write some "
            f"of {', '.join(_HTTP_AUTH)}, with commas between them"
        )
    return chosen


def _queue_names(value: Any, source: str, _name: str) -> tuple[str, ...]:
    return tuple(parse_queue(each, source=source)[0] for each in str(value).split())


class ForFunctions:
    """Settings of the functions."""

    READ_BY: Final[tuple[Reader, ...]] = ("function",)

    allowed_classes = Setting(
        parse=words,
        help="job classes that may be enqueued, as comma-separated globs; empty allows nothing",
    )

    allowed_queues = Setting(
        parse=words,
        help="queues that may be pushed to, as comma-separated globs; empty allows nothing",
    )

    trusted_alias = Setting(
        help="alias of the function whose invocations have the rights of those without an alias; another alias has"
        " what `allow` in the mappings gives it"
    )

    mappings = Setting(
        feature="mappings",
        help="file beside the function that maps events to jobs",
        default_text="mappings.yml",
    )

    tick_ahead_s = Setting(
        parse=_seconds(
            " from 0",
            "how far a tick may lie ahead of the clock of Redis, such as 60",
            lambda seconds: seconds >= 0,
        ),
        default=60,
        help="seconds that a tick may lie ahead of the clock of Redis; others are refused",
    )

    tick_offset_s = Setting(
        parse=_seconds(
            "",
            "how far the clock of the schedules is ahead of the clock of Redis (below 0: behind), or leave it unset",
            math.isfinite,
        ),
        default=0,
        help="seconds by which the clock of the schedules is ahead of the clock of Redis; set by `kiqbridge dev "
        "--at`, not for production",
    )

    http_auth = Setting(
        parse=_ways_of_authentication,
        default="iam,jwt,authorizer",
        help="accepted verifications of HTTP callers: iam, jwt, authorizer, alb (rules of the load balancer) and "
        "none (anybody may enqueue)",
    )

    max_event_bytes = Setting(
        parse=whole_number(1),
        default=1_048_576,
        help="bytes of the largest text in an event that is parsed (body, message, data of a record)",
    )

    log_arguments = Setting(
        parse=switch,
        default=False,
        help="true = messages about refused events show values of theirs, shortened",
    )

    tracing = Setting(
        parse=switch,
        default=False,
        help="true = each invocation is a subsegment of X-Ray, and jobs without a trace carry its header; needs "
        "aws-xray-sdk in a layer",
    )

    queue_limits = Setting(
        parse=parse_queue_limits,
        help="waiting jobs from which the function pushes no more to a queue, and what it does then, such as "
        "default=100000:reject,low=50000:delay:60,mail=1000:spill; globs are possible",
    )

    spill_queue_url = Setting(
        feature="spill", help="SQS queue that takes jobs while Redis is away; empty = none"
    )

    spill_fifo_queue_url = Setting(
        feature="spill",
        help="the same, a FIFO queue, for sources that keep an order; empty = their records wait at the source",
    )

    spill_key_secret_arn = Setting(
        feature="spill",
        help="ARN of the secret with the key that signs spilled messages; others are refused; empty = no message "
        "is signed",
    )

    stack = Setting(
        help="CloudFormation stack under which the function publishes the schedules of its template; empty = none"
    )

    service = Setting(
        default="kiqbridge-enqueue",
        env=("POWERTOOLS_SERVICE_NAME",),
        help="name of the function in its log lines and metrics",
    )

    function_log_level = Setting(
        default="INFO",
        env=("POWERTOOLS_LOG_LEVEL",),
        help="least important level that the function logs",
    )

    metrics_namespace = Setting(
        default="Kiqbridge",
        env=("POWERTOOLS_METRICS_NAMESPACE",),
        help="CloudWatch namespace of the function's metrics",
    )

    monitor_queues = Setting(
        parse=_queue_names,
        help="queues whose jobs count for scaling, with blanks between them; empty = all; for the monitor function"
        " alone",
    )


FUNCTION_SETTINGS: Final = rows(ForFunctions)


def features_of(environ: Mapping[str, str]) -> Iterator[Feature]:
    """The features of which this environment has a setting; no other is looked for.

    Raises:
        ConfigError: one of them is not here.
    """
    names = {
        each.feature: each.env[0]
        for each in FUNCTION_SETTINGS
        if each.feature and environ.get(each.env[0])
    }
    for name, variable in names.items():
        if (found := seams.named(name)) is None:
            raise ConfigError(
                f"{variable}: it needs the feature {name}, which is not here; remove the variable"
            )
        yield found
