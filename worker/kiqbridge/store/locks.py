"""Locks of unique jobs: looked after when their job is gone.

`kb:locks` is a hash, name → `UNTIL JID`; `kb:locks:look` says when each is looked at next; `kb:replaced` are the
jids of jobs that another one has replaced, until when that must be known. Locks are taken by pushes
(client/ruled_push.py) and freed by the effect `unlock` (kiqbridge.engine.outbox).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

LOOK_S: Final = 600.0
"""Seconds from taking a lock until it is looked at for the first time."""

_DUE: Final = scripts.load("locks_due")
_SCAN: Final = scripts.load("flow_scan")
_LOOKED: Final = scripts.load("locks_looked")


class Lock(NamedTuple):
    """A lock, and the job that owns it."""

    name: str
    jid: str


class Scanned(NamedTuple):
    """What was found in a part of a list or a sorted set.

    Attributes:
        members: how many were read.
        jids: those that stand in members under flow control.
    """

    members: int
    jids: set[str]


def find_due_locks(connection: RedisConnection, keys: Keys, *, most: int) -> list[Lock]:
    """The locks that are to be looked at; forgets what is over, locks included. One command.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    names = [keys.locks, keys.locks_look, keys.replaced]
    found = [text_of(each) for each in connection.script(_DUE, names, [most])]
    return [Lock(name, jid) for name, jid in zip(found[::2], found[1::2], strict=True)]


def scan_flow(connection: RedisConnection, key: str, start: int, count: int) -> Scanned:
    """Read a part of a list of jobs, from its head, or of a sorted set, from its end.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    members, *jids = connection.script(_SCAN, [key], [start, count])
    return Scanned(members, {text_of(jid) for jid in jids})


def looked_at(
    connection: RedisConnection | RedisPool,
    keys: Keys,
    *,
    kept: Sequence[Lock],
    gone: Sequence[Lock],
    again_s: float,
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
