"""The enqueue function: events of AWS services become jobs in Redis.

The thinking is in `kiqbridge.aws`; here are the warm environment and its settings.
"""

import functools
import os
import sys
import time
from pathlib import Path
from typing import Any

from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.report import Report, Reporting
from kiqbridge.aws.sources import failure_answer, is_http
from kiqbridge.aws.time_left import seconds_for_redis
from kiqbridge.config import function_settings as settings
from kiqbridge.config.setting import read
from kiqbridge.store import deadline

reporting = Reporting(
    service=read(settings.SERVICE, os.environ),
    namespace=read(settings.METRICS_NAMESPACE, os.environ),
    level=read(settings.FUNCTION_LOG_LEVEL, os.environ),
)
started: list[bool] = []
"""Holds something once this environment has handled an event."""


@functools.cache
def enqueuer() -> Enqueuer:
    """The one of this warm environment; `enqueuer.cache_clear()` makes the next call read it anew."""
    return Enqueuer.from_environment(os.environ, Path(__file__).parent)


@functools.cache
def is_traced() -> bool:
    """Whether X-Ray was asked for."""
    return bool(read(settings.TRACING, os.environ))


def lambda_handler(event: Any, context: Any) -> Any:
    """Enqueue what the event asks for; an error is raised so that the service delivers again.

    An HTTP request is always answered.

    Returns:
        `Answer` of a direct invocation; of others what their service expects.
    """
    request_id = getattr(context, "aws_request_id", None)
    report = reporting.begin(request_id)
    if not started:
        started.append(True)
        report.count(ColdStart=1)
    by = f"lambda:{request_id}" if request_id else "lambda"
    try:
        with deadline.within(seconds_for_redis(context)):
            if is_traced():
                handled = traced(event, by, report)
            else:
                handled = enqueuer().handle(event, now=time.time(), by=by)
    except Exception as error:
        report.failed(error, is_raised=not is_http(event))
        if is_http(event):
            return failure_answer(event, error)
        raise
    else:
        report.handled(handled)
        if handled.error is not None:
            raise handled.error
        return handled.answer
    finally:
        report.write(sys.stdout)


def traced(event: Any, by: str, report: Report) -> Handled:
    """Handle an event within a subsegment of X-Ray."""
    from kiqbridge.aws import tracing  # noqa: PLC0415 - a start waits for each module

    xray = os.environ.get(tracing.HEADER, "")
    return tracing.traced(
        reporting.service,
        lambda: enqueuer().handle(event, now=time.time(), by=by, xray=xray),
        warn=report.warn,
    )
