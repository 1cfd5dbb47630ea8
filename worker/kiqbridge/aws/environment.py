"""What a function makes of its environment variables: client, logger and metrics; and its time for calls to Redis.

The logger is that of AWS Lambda Powertools, with our settings. A command that needs the client alone does not load it.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge import seams
from kiqbridge.client.client import Client
from kiqbridge.config.client_settings import ForClients, read_access
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text

if TYPE_CHECKING:
    from aws_lambda_powertools.logging import Logger

RESERVE_S: Final = 1.0
"""For what follows the last call: the answer, log lines, keeping what Redis did not take."""
_SHARE: Final = 0.25

QUEUE_LATENCY: Final = "QueueLatency"
"""Metric: seconds for which the oldest job of a queue has been waiting."""
PUSH_MS: Final = "PushMs"
"""Metric: milliseconds that pushing took."""
UNITS: Final = {QUEUE_LATENCY: "Seconds", PUSH_MS: "Milliseconds"}
"""Metrics that are no counts."""


def open_client(environ: Mapping[str, str]) -> Client:
    """A client; it connects at the first call.

    Raises:
        ConfigError: the address or a setting is wrong.
    """
    access = read_access(environ)
    client = Client(
        pool=RedisPool(access),
        namespace=access.namespace,
        profile=read(ForClients.profile, environ),
        wait_replicas=read(ForClients.wait_replicas, environ),
        max_payload_bytes=read(ForClients.max_payload_bytes, environ),
    )
    if environ.get("KIQBRIDGE_FLEETS"):
        client.use_fleets(seams.call("read_fleets")(environ))
    return client


def seconds_for_redis(context: Any) -> float:
    """Seconds of an invocation in which calls to Redis must have ended, so that its answer, or its error, is its own.

    Args:
        context: as Lambda gives it.
    """
    left_s = max(float(context.get_remaining_time_in_millis()) / 1000, 0.0)
    return left_s - min(RESERVE_S, left_s * _SHARE)


def make_logger(environ: Mapping[str, str]) -> "Logger":
    """Writes each line at once to standard output.

    Keys of the context (request id, cold start …) are those that `Logger.inject_lambda_context` adds; it must be called
    with `log_event=False`, since an event has arguments of jobs.
    """
    from kiqbridge.aws.log_lines import LineFormatter, Logger  # noqa: PLC0415 - see the module

    return Logger(
        service=read(ForFunctions.service, environ),
        level=read(ForFunctions.function_log_level, environ),
        logger_formatter=LineFormatter(
            json_serializer=_dumps,
            json_deserializer=str,  # a message is a text, and no JSON
            use_rfc3339=True,
            utc=True,
            serialize_stacktrace=False,
            location=None,  # always this package
        ),
    )


def _dumps(line: Mapping[str, Any]) -> str:
    try:
        return json_text.dumps(line).decode()
    except (TypeError, ValueError):  # a lone surrogate in what somebody sent
        return json.dumps(line, default=str)


class Metrics:
    """Writes metrics in CloudWatch's embedded metric format.

    Powertools' Metrics checks each name, unit and value, which are constants here, in a tenth of an invocation's CPU.

    Args:
        namespace: in CloudWatch.
        service: dimension of all.
    """

    def __init__(self, namespace: str, service: str) -> None:
        self._namespace = namespace
        self._service = service

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Those of a function, by POWERTOOLS_METRICS_NAMESPACE and POWERTOOLS_SERVICE_NAME."""
        return cls(
            read(ForFunctions.metrics_namespace, environ), read(ForFunctions.service, environ)
        )

    def write(self, values: Mapping[str, float], *by: Mapping[str, str]) -> None:
        """Write a line to standard output.

        Args:
            values: of each metric; a count, unless `UNITS` has its unit.
            by: sets of dimensions beside the service; each set is a metric of its own.
        """
        directive = {
            "Namespace": self._namespace,
            "Dimensions": [["service", *dimensions] for dimensions in by],
            "Metrics": [{"Name": name, "Unit": UNITS.get(name, "Count")} for name in values],
        }
        line: dict[str, Any] = {
            "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]},
            "service": self._service,
        }
        for dimensions in by:
            line |= dimensions
        for name, value in values.items():
            line[name] = [float(value)]
        sys.stdout.write(f"{_dumps(line)}\n")
