"""How often somebody may do something."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_BUCKETS: Final = 10_000


class Buckets:
    """A bucket of tokens for each key; safe for threads, bounded in memory.

    Args:
        capacity: how many may be taken at once.
        per_s: how many come back in a second.
        clock: seconds, never going back.
    """

    def __init__(
        self, capacity: float, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return (1 - level) / self._per_s
            self._levels[key] = (level - 1, self._clock())
            if len(self._levels) > MAX_BUCKETS:
                self._levels.popitem(last=False)
            return 0.0

    def give_back(self, key: str) -> None:
        """Put one back: what it was taken for does not count."""
        with self._lock:
            self._levels[key] = (min(self._capacity, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        now = self._clock()
        level, at = self._levels.pop(key, (self._capacity, now))
        current = min(self._capacity, level + (now - at) * self._per_s)
        self._levels[key] = (current, now)
        return current
