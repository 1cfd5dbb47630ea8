"""How many jobs a process has taken from each queue: counted for each claim, not for each job."""

import threading
from collections import Counter
from collections.abc import Mapping
from functools import partial

from kiqbridge.engine.inflight.chunk import Chunk


class Taken:
    """Counts from any thread; what went back to its queue is taken off again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def note(self, chunk: Chunk) -> None:
        """These jobs were taken; what of them goes back is noted, too."""
        chunk.on_return = partial(self._add, chunk.queue, -1)
        self._add(chunk.queue, 1, chunk.size)

    def _add(self, queue: str, sign: int, count: int) -> None:
        with self._lock:
            self._counts[queue] += sign * count

    def totals(self) -> Mapping[str, int]:
        """Queue → jobs since the start of the process."""
        with self._lock:
            return dict(self._counts)
