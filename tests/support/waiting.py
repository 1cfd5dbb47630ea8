"""Waiting for a condition with a deadline: no test sleeps and hopes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T],
    timeout_s: float = 10,
    what: str | Callable[[], str] = "the condition",
    *,
    interval_s: float = 0.01,
) -> T:
    """Poll `predicate` until it is truthy and return its value; AssertionError after `timeout_s`.

    `what` ends the message "not within 10 s: …"; a callable is called only then, so that it can
    describe the state at the end.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        # The last look happens after the deadline: a slow machine gets its one look too.
        is_last = time.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        if is_last:
            raise AssertionError(
                f"not within {timeout_s:g} s: {what() if callable(what) else what}"
            )
        time.sleep(interval_s)  # between two looks
