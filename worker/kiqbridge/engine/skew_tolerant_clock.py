"""The time by which scheduled jobs and retries become due, correct while one clock is set wrong.

Three times are compared: this machine's clock, Redis' clock, and this machine's earlier time carried
on by the monotonic clock. The median is used, so one clock that jumps neither delays jobs nor starts
them early.

At the start there is no earlier time. In its place stands the last look of a leader: how far it found
Redis' clock to be wrong. Without one, Redis' clock counts.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from kiqbridge.runtime.clock import lease_now, wall_now
from kiqbridge.wire.amounts import span_text

logger = logging.getLogger(__name__)

SAME_WITHIN_S = 2.0
"""Synchronized clocks differ by less, the round trip to Redis included."""

WARN_ABOVE_S = 5.0


class Look(NamedTuple):
    """What a leader has found when it looked at the clocks.

    Attributes:
        ahead_s: seconds by which the time that it used was ahead of Redis' clock.
        by: identity of its process.
    """

    ahead_s: float
    by: str

    def to_text(self) -> str:
        """As it is kept in `kb:poller:clock`."""
        return f"{self.ahead_s:.3f} {self.by}"

    @classmethod
    def from_text(cls, text: bytes | None) -> "Look | None":
        """The counterpart of `to_text`; None: it is none."""
        ahead, _, by = (text or b"").decode("utf-8", "replace").partition(" ")
        try:
            return cls(float(ahead), by)
        except ValueError:
            return None


class SkewTolerantClock:
    """A clock for one process; it follows this machine's clock until the first `observe`.

    Attributes:
        ahead_of_redis_s: seconds by which it was ahead of Redis' clock at the last `observe`; None: there was none.
    """

    def __init__(
        self, *, wall: Callable[[], float] = wall_now, steady: Callable[[], float] = lease_now
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._before: float | None = None
        self._ahead = wall() - steady()
        self._is_skewed = False
        self.ahead_of_redis_s: float | None = None

    def now(self) -> float:
        """Epoch seconds, as of the last `observe`, carried on by the monotonic clock."""
        return self._steady() + self._ahead

    def is_at_odds(self, redis_time: float) -> bool:
        """Whether this is the start, and the machine's clock differs from Redis': the last look of a leader decides."""
        return self._before is None and abs(self._wall() - redis_time) >= SAME_WITHIN_S

    def observe(self, redis_time: float, look: Look | None = None) -> None:
        """Take note of a `TIME` reply of Redis (epoch seconds), and at the start of a leader's last look."""
        steady, wall = self._steady(), self._wall()
        if abs(wall - redis_time) < SAME_WITHIN_S:
            self._before = max(wall, redis_time) - steady
        elif self._before is None:
            third = redis_time + (look.ahead_s if look else 0.0)
            self._before = sorted((wall, redis_time, third))[1] - steady
        median = sorted((wall, redis_time, steady + self._before))[1]
        self._ahead = median - steady
        is_first, self.ahead_of_redis_s = self.ahead_of_redis_s is None, median - redis_time
        self._warn_of_skew(wall - median, redis_time - median, look, is_first=is_first)

    def _warn_of_skew(
        self, of_machine: float, of_redis: float, look: Look | None, *, is_first: bool
    ) -> None:
        """Name the clock that is wrong, once for each disagreement."""
        apart = abs(of_machine - of_redis)
        if self._is_skewed:
            self._is_skewed = apart >= SAME_WITHIN_S
            return
        if apart <= WARN_ABOVE_S:
            return
        self._is_skewed = True
        wrong = [
            f"the clock of {whose} is {_off(off)}"
            for whose, off in (("this machine", of_machine), ("Redis", of_redis))
            if abs(off) >= SAME_WITHIN_S
        ]
        if not is_first:
            ground = "they agreed until now"
        elif look is not None:
            ground = f"as {look.by} found them, which led last"
        else:
            ground = "no leader has compared them before, so Redis' clock counts"
        logger.warning(
            "%s (%s); scheduled jobs, retries and ticks become due by the other one. Set it right by NTP: jobs that a "
            "machine schedules, and retries of jobs that fail there, get the time of its clock",
            " and ".join(wrong),
            ground,
        )


def _off(seconds: float) -> str:
    return f"{span_text(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
