"""The enqueue function: ticks of cron rules and direct invocations become jobs in Redis.

The thinking is in `kiqbridge.aws`; here are the warm environment, the log line and the metrics.
"""

import functools
import os
import time
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from kiqbridge import EventError, PayloadError
from kiqbridge.aws.enqueue import Answer, Enqueuer
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


def lambda_handler(event: Any, context: Any) -> Answer:
    """Enqueue the jobs of the event, all or none; an error is raised so that the caller retries."""
    request_id = getattr(context, "aws_request_id", None)
    logger.append_keys(function_request_id=request_id)
    by = f"lambda:{request_id}" if request_id else "lambda"
    try:
        answer = enqueuer().enqueue(event, now=time.time(), by=by)
    except (EventError, PayloadError) as error:
        count(Refused=1)
        logger.warning("refused", reason=str(error))
        raise
    except Exception as error:
        count(Failed=1)
        # Lambda's runtime logs the traceback of what is raised.
        logger.error("failed", error_class=type(error).__name__, reason=str(error))  # noqa: TRY400
        raise
    else:
        count(
            Enqueued=len(answer["enqueued"]),
            Duplicates=len(answer["duplicates"]),
            Stale=len(answer["stale"]),
        )
        logger.info("done", **answer)
        return answer
    finally:
        metrics.flush_metrics()


def count(**counts: int) -> None:
    """Add to the metrics of this invocation; CloudWatch reads them from the function's log."""
    for name, value in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
