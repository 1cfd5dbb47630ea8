"""Freeing locks of unique jobs, and noting when they are looked at again; the search (locks.py), operators and moves call it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.keys import Keys

_LOOKED: Final = scripts.load("locks_looked", __file__)


class Lock(NamedTuple):
    """A lock, and the job that owns it."""

    name: str
    jid: str


def looked_at(
    connection: RedisLike,
    keys: Keys,
    *,
    kept: Sequence[Lock] = (),
    gone: Sequence[Lock] = (),
    again_s: float = 0.0,
) -> int:
    """Free locks whose jobs are gone, if they still own them; others are looked at again in `again_s`.

    Returns:
        How many were freed.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    args: list[str | bytes | float] = [again_s, len(kept)]
    for each in (*kept, *gone):
        args += each
    return int(connection.script(_LOOKED, [keys.locks, keys.locks_look], args))
