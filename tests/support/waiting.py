"""Waiting for a condition with a deadline: no test sleeps and hopes."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
PATIENT_S = 120
"""How long the slowest machine may take for what a fast one does at once. A time that is promised is measured by
the test that shows it."""


def wait_until(
    predicate: Callable[[], T],
    timeout_s: float = PATIENT_S,
    what: str | Callable[[], str] = "the condition",
    *,
    interval_s: float = 0.01,
) -> T:
    """Poll `predicate` until it is truthy and return its value; AssertionError after `timeout_s`, or 120 s.

    `what` ends the message "not within 120 s: …"; a callable is called only then, so that it can
    describe the state at the end.
    """
    timeout_s = max(timeout_s, PATIENT_S)
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


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What they return, run at the same time, each on a thread of its own."""
    with ThreadPoolExecutor(len(acts)) as threads:
        return [each.result() for each in [threads.submit(act) for act in acts]]
