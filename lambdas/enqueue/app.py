"""The enqueue function: ticks of cron rules and direct invocations become jobs in Redis.

The thinking is in `kiqbridge.aws`; here are the warm environment, the log line and the metrics.
"""

import functools
import os
import time
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from kiqbridge import ConfigError, EventError, PayloadError
from kiqbridge.aws.enqueue import UNKNOWN, Enqueuer, answer_of
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Result
from kiqbridge.config import function_settings as settings
from kiqbridge.config.setting import read

SERVICE = read(settings.SERVICE, os.environ)
logger = Logger(service=SERVICE)
metrics = Metrics(service=SERVICE, namespace=read(settings.METRICS_NAMESPACE, os.environ))


@functools.cache
def enqueuer() -> Enqueuer:
    """The one of this warm environment; `enqueuer.cache_clear()` makes the next call read it anew."""
    made = Enqueuer.from_environment(os.environ)
    count(ColdStart=1)
    return made


def lambda_handler(event: Any, context: Any) -> Any:
    """Enqueue what the event asks for; an error is raised so that the service delivers again.

    Returns:
        `Answer` of a direct invocation; of others what their service expects.
    """
    request_id = getattr(context, "aws_request_id", None)
    logger.append_keys(function_request_id=request_id)
    by = f"lambda:{request_id}" if request_id else "lambda"
    try:
        handled = enqueuer().handle(event, now=time.time(), by=by)
        for result in handled.results:
            report(result)
        if handled.error is None:
            if handled.ignored:
                logger.info("ignored", source=handled.source, reason=handled.ignored)
            return handled.answer
        if not handled.results:
            report_error(handled.error, source=handled.source)
        raise handled.error
    except ConfigError as error:
        report_error(error, source=UNKNOWN)
        raise
    finally:
        metrics.flush_metrics()


def report(result: Result) -> None:
    """A log line for a record, and what became of it in the metrics."""
    record = result.record
    about: dict[str, Any] = {"source": record.source}
    about |= {
        name: value for name, value in (("origin", record.origin), ("item", record.item)) if value
    }
    if result.error is not None:
        report_error(result.error, **about)
    elif result.ignored:
        logger.info("ignored", reason=result.ignored, **about)
    else:
        answer = answer_of([result])
        count(
            Enqueued=len(answer["enqueued"]),
            Duplicates=len(answer["duplicates"]),
            Stale=len(answer["stale"]),
        )
        logger.info("done", **about, **answer)


def report_error(error: Exception, **about: Any) -> None:
    """Why something was not enqueued: refused for what it is, or failed and worth another delivery."""
    if isinstance(error, EventError | PayloadError):
        count(Refused=1)
        logger.warning("refused", reason=str(error), **about)
    elif isinstance(error, HeldBack):
        logger.info("held back", reason=str(error), **about)
    else:
        count(Failed=1)
        # Lambda's runtime logs the traceback of what is raised.
        logger.error("failed", error_class=type(error).__name__, reason=str(error), **about)


def count(**counts: int) -> None:
    """Add to the metrics of this invocation; CloudWatch reads them from the function's log."""
    for name, value in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
