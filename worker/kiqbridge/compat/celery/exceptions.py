"""Celery's exceptions that have a counterpart, and the one by which a task asks to be tried again."""

import time
from datetime import datetime, timedelta

from kiqbridge.errors import JobTimeout, ResultTimeout

SoftTimeLimitExceeded = JobTimeout
"""Raised in a task that runs longer than its `soft_time_limit`."""

TimeLimitExceeded = JobTimeout
"""The same error as `SoftTimeLimitExceeded`: there is one time limit."""

TimeoutError = ResultTimeout  # noqa: A001 - Celery's name
"""Raised by `AsyncResult.get(timeout=…)`."""

__all__ = [
    "MaxRetriesExceededError", "Retry", "SoftTimeLimitExceeded", "TimeLimitExceeded",
    "TimeoutError",
]  # fmt: skip


class Retry(Exception):  # noqa: N818 - Celery's name
    """The running job is to be tried again; raise it, or let `self.retry()` do so.

    Attributes:
        exc: the error that made it necessary, or None.
        when: seconds, a timedelta or an aware datetime.
    """

    def __init__(
        self,
        message: str | None = None,
        exc: BaseException | None = None,
        when: float | timedelta | datetime | None = None,
    ) -> None:
        self.exc = exc
        self.when = when
        cause = f": {type(exc).__name__}: {exc}" if exc is not None else ""
        super().__init__(message or f"to be tried again{cause}")

    def delay_s(self, default: float) -> float:
        """Seconds from now."""
        when = default if self.when is None else self.when
        if isinstance(when, timedelta):
            return when.total_seconds()
        if isinstance(when, datetime):
            return when.timestamp() - time.time()
        return float(when)


class MaxRetriesExceededError(Exception):
    """`self.retry()` was called, and no retries are left."""
