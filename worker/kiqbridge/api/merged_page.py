"""A page of a sorted set that lies on several shards, as if it were one set.

Near the begin of the order each shard's first members are read and merged. Farther in, the score at which the page
begins is sought by halving with ZCOUNT, 64 steps at most, and then no shard sends more than a page.
"""

import heapq
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kiqbridge.api.sets import JobSet, SortedEntry

NEAR: Final = 500
"""Members before a page that are read rather than sought."""
_HALF: Final = 1 << 63


def merged_rows(
    parts: "Sequence[JobSet]", first: int, size: int, *, reverse: bool
) -> "list[SortedEntry]":
    """Members of all shards, by score; of one score in the order of the shards.

    Args:
        parts: the set on each shard.
        first: how many to pass over.
        size: how many are wanted, at most.
        reverse: from the highest score down.
    """
    passed = [0] * len(parts)
    if first > NEAR:
        passed = _places(parts, first, reverse=reverse)
        first -= sum(passed)
    rows = [
        part.ranked(place, first + size, reverse=reverse)
        for part, place in zip(parts, passed, strict=True)
    ]
    merged = heapq.merge(*rows, key=lambda entry: -entry.score if reverse else entry.score)
    return list(merged)[first : first + size]


def _places(parts: "Sequence[JobSet]", first: int, *, reverse: bool) -> list[int]:
    """How many members of each shard lie before the one with this number in all; never more than `first` together."""
    low, high = _ordered(float("-inf")), _ordered(float("inf"))
    while low < high:  # the score of that member: the first with which enough are counted
        middle = (low + high) // 2
        counts = _count(
            parts, _score(-middle if reverse else middle), reverse=reverse, inclusive=True
        )
        if sum(counts) > first:
            high = middle
        else:
            low = middle + 1
    score = _score(-low if reverse else low)
    before = _count(parts, score, reverse=reverse, inclusive=False)
    until = _count(parts, score, reverse=reverse, inclusive=True)
    left = max(0, first - sum(before))
    for place, (less, all_of_it) in enumerate(zip(before, until, strict=True)):
        taken = min(left, max(0, all_of_it - less))
        before[place] += taken
        left -= taken
    return before


def _count(parts: "Sequence[JobSet]", score: float, *, reverse: bool, inclusive: bool) -> list[int]:
    bound = repr(score) if inclusive else f"({score!r}"
    span = (bound, "+inf") if reverse else ("-inf", bound)
    return [int(part.operator.pool.call("ZCOUNT", part.redis_key, *span)) for part in parts]


def _ordered(number: float) -> int:
    """An integer for each number, in the same order; its negative is that of the negative number."""
    bits: int
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    return -(bits - _HALF) if bits & _HALF else bits


def _score(place: int) -> float:
    bits = place if place >= 0 else _HALF - place
    (number,) = struct.unpack(">d", struct.pack(">Q", bits))
    return float(number)
