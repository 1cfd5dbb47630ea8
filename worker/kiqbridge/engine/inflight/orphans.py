"""How often each job was found orphaned: in a process that died, or running for too long.

One that was found too often becomes a suspect and runs alone (reliability §8). The scripts of the reap
count in the same step in which a job goes back (`parts/orphans.lua`); all else counts here.
"""

from collections.abc import Collection, Mapping
from typing import Final

from kiqbridge.runtime.digests import sha1
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.raw_job import jid_in

ORPHAN_LIMIT: Final = 3
"""How often a job may be found orphaned until it is a suspect."""

COUNTED_FOR_S: Final = 3 * 86_400
"""Seconds that a count is kept after the last time."""

_COUNTS_AT_ONCE = 1000


def orphan_id(text: bytes) -> str:
    """The name under which a job is counted: its jid, or the SHA-1 of its bytes if it has none."""
    jid = jid_in(text)
    return sha1(text, usedforsecurity=False).hexdigest() if jid is None else jid.decode()


def orphan_count(connection: RedisConnection, keys: Keys, name: str) -> int:
    """How often the job of that name (`orphan_id`) was found orphaned so far.

    Raises:
        RedisUnavailable, RedisRefused: nothing is known.
    """
    return _number(connection.call("GET", keys.recovered(name)))


def orphan_counts(
    connection: RedisConnection, keys: Keys, names: Collection[str]
) -> Mapping[str, int]:
    """Name (`orphan_id`) → how often the job was found orphaned so far.

    Raises:
        RedisUnavailable: nothing is known.
    """
    named = list(names)
    counts: dict[str, int] = {}
    for start in range(0, len(named), _COUNTS_AT_ONCE):
        part = named[start : start + _COUNTS_AT_ONCE]
        found = connection.call("MGET", *(keys.recovered(name) for name in part))
        for name, count in zip(part, found, strict=True):
            counts[name] = _number(count)
    return counts


def count_orphan(connection: RedisConnection, keys: Keys, name: str) -> None:
    """Count a job once more, and keep its count for `COUNTED_FOR_S` from now on.

    Raises:
        RedisUnavailable: it may be counted or not.
    """
    key = keys.recovered(name)
    connection.run(("INCR", key), ("EXPIRE", key, COUNTED_FOR_S))


def forget_orphan(connection: RedisConnection, keys: Keys, name: str) -> None:
    """Forget the count of a job that ended well.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.call("DEL", keys.recovered(name))


def _number(count: bytes | None) -> int:
    return int(count) if count and count.isdigit() else 0
