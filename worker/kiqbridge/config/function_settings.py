"""The rows of the table that the functions alone read, from their environment."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.config.parsers import Parser, switch, whole_number, words
from kiqbridge.config.queue_limits import parse_queue_limits
from kiqbridge.config.setting import Reader, Setting, rows
from kiqbridge.errors import ConfigError
from kiqbridge.feature import Feature
from kiqbridge.wire.queues import parse_queue

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
        " what `allow` in the mappings gives it",
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
        help="CloudFormation stack under which the function publishes the schedules of its template; empty = none",
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
