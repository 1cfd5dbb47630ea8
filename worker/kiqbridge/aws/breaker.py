"""Whether Redis is worth asking: after a failure it is not asked again for some seconds."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from kiqbridge.aws.record import Result
from kiqbridge.errors import RedisUnavailable

OPEN_S: Final = 5.0
"""An attempt may take six seconds (two connections, three seconds each) of the twenty that the function has;
the next one after the pause tries again."""

_ANY: Final[frozenset[str]] = frozenset()
"""Where there is one server."""


class Breaker:
    """Remembers that Redis was away, or which of several shards.

    Args:
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since: dict[frozenset[str], float] = {}

    def refusal(self, shards: frozenset[str] = _ANY) -> RedisUnavailable | None:
        """Why Redis is not asked now; None = ask it.

        Args:
            shards: which would be asked; none = there is one server.
        """
        now = self._clock()
        away = [
            names
            for names, since in self._since.items()
            if names <= shards and 0 <= now - since < OPEN_S
        ]
        if not away:
            return None
        which = f"shard {', '.join(sorted(away[0]))}" if away[0] else "Redis"
        address = "its address" if away[0] else "REDIS_URL"
        return RedisUnavailable(
            f"{which} did not answer less than {OPEN_S:g} s ago, so that it was not asked again; "
            f"check {address}, that the server runs, and its security group"
        )

    def note(self, results: Sequence[Result], shards: Sequence[frozenset[str]]) -> None:
        """What became of a push.

        Args:
            results: of each record.
            shards: which were asked for each.
        """
        answered = {
            names for each, names in zip(results, shards, strict=True) if each.error is None
        }
        for name in [one for one in self._since if any(one <= names for names in answered)]:
            del self._since[name]
        for each, names in zip(results, shards, strict=True):
            if isinstance(each.error, RedisUnavailable):
                self._since[names] = self._clock()
