"""The two clocks, read only by outermost loops; everything else takes the time as an argument."""

import time
from collections.abc import Callable

wall_now = time.time
"""Epoch seconds (float): what goes on the wire."""

if hasattr(time, "CLOCK_BOOTTIME"):

    def lease_now() -> float:
        """Seconds (float) on a clock that cannot be set and also counts time spent suspended.

        A machine that slept must find its lease expired, which CLOCK_MONOTONIC would hide.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover - other systems than Linux
    lease_now = time.monotonic


_tests_clock: Callable[[], float] | None = None


def client_now() -> float:
    """Epoch seconds (float) for what is enqueued: the wall clock, unless a test moves it (kiqbridge.testing)."""
    return time.time() if _tests_clock is None else _tests_clock()


def use_clock(now: Callable[[], float] | None) -> Callable[[], float] | None:
    """Set what `client_now` reads in this process, None = the wall clock; returns what it read before."""
    global _tests_clock
    former, _tests_clock = _tests_clock, now
    return former
