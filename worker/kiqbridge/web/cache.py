"""Reads that many viewers share: each is made once a second, however many ask for it.

A thousand browsers that show the same page cost Redis as much as one. What is asked for while it is
read waits for that reading (single flight). A failed reading is not kept.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

FRESH_S: Final = 1.0
MAX_KEPT: Final = 256
"""Readings; the one that was asked for least recently is dropped first."""

Value = TypeVar("Value")


@dataclass(slots=True, kw_only=True)
class _Reading:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    made_at: float = -math.inf
    until: float = math.inf


class Cache:
    """Values by key; safe for threads.

    Args:
        clock: seconds, never going back.
        max_kept: how many readings are kept.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, max_kept: int = MAX_KEPT
    ) -> None:
        self._clock = clock
        self._max_kept = max_kept
        self._lock = threading.Lock()
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    def __len__(self) -> int:
        return len(self._readings)

    def get(self, key: Hashable, load: Callable[[], Value], fresh_s: float = FRESH_S) -> Value:
        """The value that was loaded for this key in the last `fresh_s` seconds, else a new one.

        Args:
            key: names what is read, with all that it depends on: page, filter.
            load: reads it; called by one thread at a time for a key.
            fresh_s: how old a value may be.
        """
        reading = self._reading(key)
        with reading.lock:
            now = self._clock()
            if now - reading.made_at >= fresh_s:
                # Counted from before the reading: what changes meanwhile is seen a second later.
                reading.value, reading.made_at = load(), now
                reading.until = now + fresh_s
            return cast("Value", reading.value)

    def clear(self) -> None:
        """Forget all: after an action its effect is to be seen at once."""
        with self._lock:
            self._readings.clear()

    def _reading(self, key: Hashable) -> _Reading:
        with self._lock:
            reading = self._readings.get(key)
            if reading is None:
                self._drop_stale()
                reading = self._readings[key] = _Reading()
                if len(self._readings) > self._max_kept:
                    self._readings.popitem(last=False)
            else:
                self._readings.move_to_end(key)
            return reading

    def _drop_stale(self) -> None:
        """What is not needed any more takes no memory: a page may hold megabytes."""
        now = self._clock()
        for key in [key for key, reading in self._readings.items() if reading.until <= now]:
            del self._readings[key]
