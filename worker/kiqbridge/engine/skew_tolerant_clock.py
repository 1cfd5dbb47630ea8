"""The time by which scheduled jobs and retries become due, correct while one clock is set wrong.

Three times are compared: this machine's clock, Redis' clock, and this machine's earlier time carried
on by the monotonic clock. The median is used, so one clock that jumps neither delays jobs nor starts
them early. Where the first two differ from the beginning, the later one is used: a job that begins
early is better than one that waits for an hour.
"""

import logging
from collections.abc import Callable

from kiqbridge.runtime.clock import lease_now, wall_now

logger = logging.getLogger(__name__)

SAME_WITHIN_S = 2.0
"""Synchronized clocks differ by less, the round trip to Redis included."""

WARN_ABOVE_S = 60.0


class SkewTolerantClock:
    """A clock for one process; it follows this machine's clock until the first `observe`."""

    def __init__(
        self, *, wall: Callable[[], float] = wall_now, steady: Callable[[], float] = lease_now
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._before: float | None = None
        self._ahead = wall() - steady()
        self._is_skewed = False

    def now(self) -> float:
        """Epoch seconds, as of the last `observe`, carried on by the monotonic clock."""
        return self._steady() + self._ahead

    def observe(self, redis_time: float) -> None:
        """Take note of a `TIME` reply of Redis (epoch seconds)."""
        steady, wall = self._steady(), self._wall()
        if self._before is None or abs(wall - redis_time) < SAME_WITHIN_S:
            self._before = max(wall, redis_time) - steady
        median = sorted((wall, redis_time, steady + self._before))[1]
        self._ahead = median - steady
        self._warn_of_skew(wall - redis_time)

    def _warn_of_skew(self, difference: float) -> None:
        was, self._is_skewed = self._is_skewed, abs(difference) > WARN_ABOVE_S
        if self._is_skewed and not was:
            logger.warning(
                "the clock of this machine is %+.0f s off that of Redis: one of them was set wrong; "
                "scheduled jobs go by the one that did not jump, retries of jobs that fail here by this "
                "machine's; set both by NTP",
                difference,
            )
