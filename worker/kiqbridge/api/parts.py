"""The same done to what lies on several shards, one after the other."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kiqbridge.api.actions import Progress

Part = TypeVar("Part")


def one_after_the_other(
    parts: Sequence[Part],
    do: Callable[[Part, int | None, Progress | None], int],
    limit: int | None,
    progress: Progress | None,
) -> int:
    """Act on one shard after the other.

    Args:
        parts: a set or a queue on each shard.
        do: acts on one; gets how many may be moved at most, and whom to report to.
        limit: how many may be moved on all, at most.
        progress: called with how many were moved, and looked at, on all.

    Returns:
        How many were moved.
    """
    done = looked_at = 0
    for part in parts:
        left = None if limit is None else limit - done
        if left is not None and left <= 0:
            break
        so_far = (done, looked_at)

        def report(more: int, looked: int, so_far: tuple[int, int] = so_far) -> None:
            nonlocal looked_at
            looked_at = so_far[1] + looked
            if progress is not None:
                progress(so_far[0] + more, looked_at)

        done += do(part, left, report)
    return done
