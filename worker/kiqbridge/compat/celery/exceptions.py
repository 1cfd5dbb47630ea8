"""Celery's exceptions that have a counterpart."""

from kiqbridge.compat.celery.retry import MaxRetriesExceededError, Retry
from kiqbridge.errors import JobTimeout, ResultTimeout

SoftTimeLimitExceeded = JobTimeout
"""Raised in a task that runs longer than its `soft_time_limit`."""

TimeLimitExceeded = JobTimeout
"""As `SoftTimeLimitExceeded`: there is one time limit."""

TimeoutError = ResultTimeout  # noqa: A001 - Celery's name
"""Raised by `AsyncResult.get(timeout=…)`."""

__all__ = [
    "MaxRetriesExceededError",
    "Retry",
    "SoftTimeLimitExceeded",
    "TimeLimitExceeded",
    "TimeoutError",
]
