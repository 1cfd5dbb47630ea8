"""Histograms of durations, and percentiles computed from them (protocol §12.3).

A histogram knows only how many executions fell into each of 26 buckets. A percentile is found by counting
into the bucket in which it lies; within it, executions are taken as spread evenly. So it is wrong by no more
than the width of that bucket, and one beyond the last bound, 335 s, is given as that bound.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.wire.measures import BOUNDS_MS, BUCKETS

_WORDS: Final = struct.Struct(f">{BUCKETS}H")
_EMPTY: Final = (0,) * BUCKETS


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many executions took how long.

    Attributes:
        counts: executions in each bucket, the shortest first; bucket `i` ends below `BOUNDS_MS[i]`.
    """

    counts: Sequence[int] = _EMPTY

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    def __bool__(self) -> bool:
        return any(self.counts)

    @property
    def count(self) -> int:
        """Executions in all buckets."""
        return sum(self.counts)

    def percentile(self, share: float) -> float | None:
        """Milliseconds within which this share of the executions ended, None if there are none.

        Linear within its bucket; 335,000 stands for "at least that".

        Args:
            share: from 0 to 1, such as 0.95.
        """
        total = self.count
        if not total:
            return None
        rank = min(max(share, 0.0), 1.0) * total
        below = 0
        for index, count in enumerate(self.counts):
            if count and below + count >= rank:
                if index >= len(BOUNDS_MS):
                    return BOUNDS_MS[-1]
                lower = BOUNDS_MS[index - 1] if index else 0.0
                return lower + (BOUNDS_MS[index] - lower) * max(rank - below, 0.0) / count
            below += count
        return BOUNDS_MS[-1]

    @property
    def p50(self) -> float | None:
        """The median in milliseconds."""
        return self.percentile(0.5)

    @property
    def p95(self) -> float | None:
        """Milliseconds within which 95 of 100 ended."""
        return self.percentile(0.95)

    @property
    def p99(self) -> float | None:
        """Milliseconds within which 99 of 100 ended."""
        return self.percentile(0.99)


def read_histogram(raw: bytes | None) -> Histogram:
    """What lies under a histogram's key: unsigned 16-bit counters, the first one first (`u16 #0` …)."""
    if not raw:
        return _NOTHING
    return Histogram(_WORDS.unpack(raw[: _WORDS.size].ljust(_WORDS.size, b"\0")))


_NOTHING: Final = Histogram()


def bucket_label(index: int) -> str:
    """Of a bucket: its upper bound, such as `20ms` or `1.1s`; of the last one `Slow`."""
    if index >= len(BOUNDS_MS):
        return "Slow"
    bound = BOUNDS_MS[index]
    return f"{bound:g}ms" if bound < 1000 else f"{bound / 1000:g}s"  # noqa: PLR2004 - a second
