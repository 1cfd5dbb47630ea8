"""Whether Redis is worth asking: after a failure it is not asked again for some seconds."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from kiqbridge.aws.record import Result
from kiqbridge.errors import RedisUnavailable

OPEN_S: Final = 5.0
"""An attempt may take six seconds (two connections, three seconds each) of the twenty that the function has;
the next one after the pause tries again."""


class Breaker:
    """Remembers that Redis was away.

    Args:
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since = -OPEN_S

    def refusal(self) -> RedisUnavailable | None:
        """Why Redis is not asked now; None = ask it."""
        if not 0 <= self._clock() - self._since < OPEN_S:
            return None
        return RedisUnavailable(
            f"Redis did not answer less than {OPEN_S:g} s ago, so that it was not asked again; "
            "check REDIS_URL, that the server runs, and its security group"
        )

    def note(self, results: Sequence[Result]) -> None:
        """What became of a push."""
        if any(isinstance(each.error, RedisUnavailable) for each in results):
            self._since = self._clock()
        elif any(each.error is None for each in results):
            self._since = -OPEN_S
