"""Ends of jobs under flow control that wait in Redis: taken, applied, put off.

They are written by the scripts that settle their jobs (engine/inflight/claims.py, store/due_jobs.py, store/operating.py).
"""

from collections.abc import Sequence
from typing import Final

from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

MOST_CANCELLED: Final = 10_000

_TAKE: Final = scripts.load("take_reports")
_APPLY: Final = scripts.load("apply_end")


def take_ends(
    connection: RedisConnection | RedisPool, keys: Keys, *, most: int, for_s: float
) -> list[bytes]:
    """Take up to `most` ends that are due; others leave them alone for so many seconds.

    Raises:
        RedisUnavailable, RedisRefused: those that were taken are due again after that time.
    """
    if not connection.call("EXISTS", keys.flow_ends):
        return []
    _now, *texts = connection.script(_TAKE, [keys.flow_ends], [most, for_s])
    return list(texts)


def apply_end(
    connection: RedisConnection | RedisPool,
    keys: Keys,
    end: bytes,
    effects: Sequence[Effect],
) -> list[int | bytes] | None:
    """Apply the effects of an end, and remove it.

    Returns:
        What each effect answers, see apply_end.lua; None: another worker has applied it.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
        RedisRefused: a key is of another type; nothing was done, and the end stays.
    """
    its_keys, args = packed(effects)
    answers: list[int | bytes] = connection.script(
        _APPLY, [keys.flow_ends, *its_keys], [end, *args]
    )
    return answers or (None if effects else [])


def drop_end(connection: RedisConnection | RedisPool, keys: Keys, end: bytes) -> None:
    """Remove what is no end.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.call("ZREM", keys.flow_ends, end)


def read_cancelled(
    connection: RedisConnection | RedisPool, keys: Keys, now: float
) -> frozenset[str]:
    """Batches that are cancelled at `now` (epoch seconds), the latest 10,000.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    found = connection.call(
        "ZRANGE",
        keys.cancelled_batches,
        "+inf",
        repr(now),
        "BYSCORE",
        "REV",
        "LIMIT",
        0,
        MOST_CANCELLED,
    )
    return frozenset(bid.decode(errors="replace") for bid in found)
