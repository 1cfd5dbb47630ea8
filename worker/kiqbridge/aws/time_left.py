"""How long the function may wait for Redis, so that its answer, or its error, is its own and no time-out."""

from typing import Any, Final

RESERVE_S: Final = 1.0
"""For what follows the last call: the answer, log lines, keeping what Redis did not take."""
_SHARE: Final = 0.25


def seconds_for_redis(context: Any) -> float:
    """Seconds of this invocation in which calls to Redis must have ended.

    Args:
        context: as Lambda gives it; without a time the answer is infinity.
    """
    remaining_ms = getattr(context, "get_remaining_time_in_millis", None)
    if remaining_ms is None:
        return float("inf")
    left_s = max(float(remaining_ms()) / 1000, 0.0)
    return left_s - min(RESERVE_S, left_s * _SHARE)
