"""Ends of jobs under flow control that wait in Redis: taken, applied, put off.

They are written by the scripts that settle their jobs (engine/settle/settling.py, store/due_jobs.py, store/operating.py).
"""

from collections.abc import Sequence
from typing import Final

from kiqbridge import seams
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.keys import Keys

_TAKE: Final = scripts.load("take_reports")
_APPLY: Final = scripts.load(
    "apply_ends",
    parts=[f"{each.name}.effect_{name}" for each in seams.shipped() for name in each.effects],
)


def take_ends(connection: RedisLike, keys: Keys, *, most: int, for_s: float) -> list[bytes]:
    """Take up to `most` ends that are due; others leave them alone for so many seconds.

    Raises:
        RedisUnavailable, RedisRefused: those that were taken are due again after that time.
    """
    if not connection.call("EXISTS", keys.flow_ends):
        return []
    _now, *texts = connection.script(_TAKE, [keys.flow_ends], [most, for_s])
    return list(texts)


def apply_ends(
    connection: RedisLike, keys: Keys, ends: Sequence[tuple[bytes, Sequence[Effect]]]
) -> list[list[int | bytes] | None]:
    """Apply the effects of ends, and remove the ends, all in one script.

    Returns:
        What each effect of each end answers, see apply_ends.lua; None: another worker has applied this end.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
        RedisRefused: a key is of another type; nothing was done, and the ends stay.
    """
    targets, args = [keys.flow_ends], list[str | bytes | float]()
    for text, effects in ends:
        its_keys, its_args = packed(effects)
        targets += its_keys
        args += [text, *its_args]
    answers = connection.script(_APPLY, targets, args)
    return [None if answer == 0 else answer for answer in answers]


def drop_end(connection: RedisLike, keys: Keys, end: bytes) -> None:
    """Remove what is no end.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.call("ZREM", keys.flow_ends, end)
