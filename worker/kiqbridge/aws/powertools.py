"""Logger and metrics of a function: those of AWS Lambda Powertools, with our settings."""

import json
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from kiqbridge.config import function_settings as settings
from kiqbridge.config.setting import read
from kiqbridge.wire import json_text


def make_logger(environ: Mapping[str, str]) -> Logger:
    """Writes each line at once to standard output.

    Keys of the context (request id, cold start …) are those that `Logger.inject_lambda_context` adds; it must be called
    with `log_event=False`, since an event has arguments of jobs.
    """
    return Logger(
        service=read(settings.SERVICE, environ),
        level=read(settings.FUNCTION_LOG_LEVEL, environ),
        json_serializer=_dumps,
        json_deserializer=str,  # a message is a text, and no JSON
        use_rfc3339=True,
        utc=True,
        serialize_stacktrace=False,
        location=None,  # always this package
    )


def _dumps(line: Mapping[str, Any]) -> str:
    try:
        return json_text.dumps(line).decode()
    except (TypeError, ValueError):  # a lone surrogate in what somebody sent
        return json.dumps(line, default=str)


def make_metrics(environ: Mapping[str, str]) -> EphemeralMetrics:
    """Of one environment; nothing is shared with other objects, nor kept after a flush."""
    return EphemeralMetrics(
        service=read(settings.SERVICE, environ),
        namespace=read(settings.METRICS_NAMESPACE, environ),
    )
