"""What time it is for jobs that wait for theirs, when somebody has set a clock wrong.

Three clocks are asked: this machine's, Redis', and this machine's of before, carried on by a clock
that nobody can set. The one in the middle is right as long as one of them alone jumps: a wrong clock
neither holds jobs up nor lets them begin early. Where the first two differ from the beginning,
nobody can know, and the later one counts: a job that begins early is better than one that waits for
an hour.
"""

import logging
from collections.abc import Callable

from kiqbridge.clock import lease_now, wall_now

logger = logging.getLogger(__name__)

AGREE_WITHIN_S = 2.0
"""Clocks that are kept right differ by less, and so does the time that an answer is on its way."""

SUSPICIOUS_S = 60.0


class AgreedTime:
    """The time of one process, from the moment of the first `hear`."""

    def __init__(
        self, *, wall: Callable[[], float] = wall_now, steady: Callable[[], float] = lease_now
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._before: float | None = None
        self._ahead = wall() - steady()
        self._is_suspicious = False

    def now(self) -> float:
        """Epoch seconds, as agreed when Redis was last heard."""
        return self._steady() + self._ahead

    def hear(self, redis_time: float) -> None:
        """Redis says that it is `redis_time` (epoch seconds)."""
        steady, wall = self._steady(), self._wall()
        if self._before is None or abs(wall - redis_time) < AGREE_WITHIN_S:
            self._before = max(wall, redis_time) - steady
        agreed = sorted((wall, redis_time, steady + self._before))[1]
        self._ahead = agreed - steady
        self._speak_up(wall - redis_time)

    def _speak_up(self, difference: float) -> None:
        was, self._is_suspicious = self._is_suspicious, abs(difference) > SUSPICIOUS_S
        if self._is_suspicious and not was:
            logger.warning(
                "the clock of this machine is %+.0f s off that of Redis: one of them was set wrong; "
                "scheduled jobs go by the one that did not jump, retries of jobs that fail here by this "
                "machine's; set both by NTP",
                difference,
            )
