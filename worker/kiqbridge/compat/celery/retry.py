"""When a task is tried again: Celery's rules as an answer to `retry_in` (protocol §8.3).

A task that raises `Retry` is tried again at the time that it names. One that raises an error of `autoretry_for`
is tried again after `default_retry_delay`, or with a growing pause. Any other error is final, as in Celery; the
job is kept in the dead set, where an operator can retry it.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """The rule of one task.

    Attributes:
        autoretry_for: errors after which the job is tried again.
        dont_autoretry_for: those among them that are final.
        delay_s: seconds of a pause that nothing else decides.
        backoff: True or a factor in seconds: each pause is twice the one before.
        backoff_max_s: seconds that no such pause exceeds.
        jitter: whether such a pause is a random part of itself.
        rng: for the jitter.
    """

    autoretry_for: tuple[type[BaseException], ...]
    dont_autoretry_for: tuple[type[BaseException], ...]
    delay_s: float
    backoff: bool | float
    backoff_max_s: float
    jitter: bool
    rng: random.Random

    def delay(self, count: int, error: BaseException, _payload: Mapping[str, Any]) -> float | str:
        """Seconds until the next try, or "kill"; for `retry_in` of a job."""
        if isinstance(error, Retry):
            return max(error.delay_s(self.delay_s), 0.001)
        if not isinstance(error, self.autoretry_for) or isinstance(error, self.dont_autoretry_for):
            return "kill"
        if not self.backoff:
            return self.delay_s
        factor = 1.0 if self.backoff is True else float(self.backoff)
        pause = min(factor * 2 ** min(count, 40), self.backoff_max_s)
        return max(self.rng.uniform(0, pause) if self.jitter else pause, 0.001)


def retry_now(
    name: str,
    retries: int,
    *,
    most: int | None,
    exc: BaseException | None,
    when: float | datetime | None,
    delay_s: float,
) -> Retry:
    """What `self.retry()` raises.

    Args:
        name: of the task.
        retries: how often it was tried again.
        most: retries that it may have, None = any number.
        exc: the error.
        when: seconds or a time; None = `delay_s`.
        delay_s: seconds.

    Raises:
        MaxRetriesExceededError: none are left; `exc` is raised in its place if there is one.
    """
    if most is not None and retries >= most:
        if exc is not None:
            raise exc
        raise MaxRetriesExceededError(f"{name} was tried again {retries} times, its max_retries")
    return Retry(exc=exc, when=delay_s if when is None else when)
