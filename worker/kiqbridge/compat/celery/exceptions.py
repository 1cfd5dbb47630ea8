"""Celery's exceptions that have a counterpart."""

from kiqbridge.compat.celery.retry import MaxRetriesExceededError, Retry
from kiqbridge.errors import JobTimeout

SoftTimeLimitExceeded = JobTimeout
"""Raised in a task that runs longer than its `soft_time_limit`."""

TimeLimitExceeded = JobTimeout
"""As `SoftTimeLimitExceeded`: there is one time limit."""

__all__ = ["MaxRetriesExceededError", "Retry", "SoftTimeLimitExceeded", "TimeLimitExceeded"]
