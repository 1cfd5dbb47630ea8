"""The two clocks, read only by outermost loops; everything else takes the time as an argument."""

import time

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
