"""Forgetting guards and ledgers whose time is over.

They have no TTL, since a server whose memory is full evicts keys with a TTL first. Each push forgets
some; the rest, and those that no push touches any more, are left to the leader of the pollers.

And keeping the dead set within its bounds (protocol §8.5): how far it is beyond them, and removing what is.
"""

import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.process_set import read_infos
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.dead_bounds import FIELD, DeadBounds, fleet_bounds
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

FORGET_AT_ONCE: Final = 500
"""Members that one script forgets."""

FORGET_ROUNDS: Final = 10
"""Scripts that one call of `forget_what_is_over` runs at most, of each kind."""

_FORGET_GUARDS = scripts.load("forget_guards")
_FORGET_LEDGERS = scripts.load("forget_ledgers")


def forget_what_is_over(connection: RedisConnection, keys: Keys) -> bool:
    """Forget guards and ledgers whose time is over, a bounded number; whether that was all of them.

    By the clock of Redis. It frees memory, so it works also while none is left.

    Raises:
        RedisUnavailable, RedisRefused: what is left is forgotten another time.
    """
    return _forget_guards(connection, keys) & _forget_ledgers(connection, keys)


def _forget_guards(connection: RedisConnection, keys: Keys) -> bool:
    for _ in range(FORGET_ROUNDS):
        forgotten = connection.script(
            _FORGET_GUARDS, [keys.guards, keys.guards_until], [FORGET_AT_ONCE]
        )
        if forgotten < FORGET_AT_ONCE:
            return True
    return False


def _forget_ledgers(connection: RedisConnection, keys: Keys) -> bool:
    """Ledgers of schedules that are no more: no tick has come since their last entry was over."""
    for _ in range(FORGET_ROUNDS):
        now = int(connection.call("TIME")[0])
        names: list[bytes] = connection.call(
            "ZRANGE", keys.ledgers, "-inf", f"({now}", "BYSCORE", "LIMIT", 0, FORGET_AT_ONCE
        )
        if names:
            ledgers = [key for name in names for key in keys.ledger(text_of(name))]
            connection.script(_FORGET_LEDGERS, [keys.ledgers, *ledgers], names)
        if len(names) < FORGET_AT_ONCE:
            return True
    return False


KEPT_S: Final = 86_400.0
"""How long is known how many were dropped."""

_TRIM = scripts.load("trim_dead")


class Excess(NamedTuple):
    """How far the dead set is beyond its bounds.

    Attributes:
        now: of the server, epoch seconds.
        size: jobs in the set.
        most: jobs to remove, the first ones of the set.
        bounds: those that hold.
    """

    now: float
    size: int
    most: int
    bounds: DeadBounds

    @property
    def expired_at(self) -> float:
        """What died up to then has had its time, epoch seconds."""
        return self.now - self.bounds.timeout_s


def read_excess(connection: RedisConnection, keys: Keys, own: DeadBounds) -> Excess:
    """The dead jobs beyond the bounds of this worker; if there are any, beyond the widest bounds of the living fleet.

    One round trip, and three more if it is beyond.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    (seconds, micros), size, first = connection.run(
        ("TIME",), ("ZCARD", keys.dead), ("ZRANGE", keys.dead, 0, 0, "WITHSCORES")
    )
    now = int(seconds) + int(micros) / 1_000_000
    if not own.overflow(size) and (not first or float(first[1]) > now - own.timeout_s):
        return Excess(now, size, 0, own)
    published = read_infos(connection.run, keys, field=FIELD).values()
    bounds = fleet_bounds([own.field(), *published])
    expired = connection.call("ZCOUNT", keys.dead, "-inf", repr(now - bounds.timeout_s))
    return Excess(now, size, max(int(expired), bounds.overflow(size)), bounds)


def remove_dead(
    connection: RedisConnection,
    keys: Keys,
    members: Sequence[bytes],
    scores: Sequence[bytes],
    *,
    now: float,
    expired_at: float,
) -> list[bool]:
    """Remove members that are as they were read; for each whether it was.

    Args:
        connection: where to write.
        keys: the namespace.
        members, scores: as read.
        now: epoch seconds.
        expired_at: what died up to then has had its time; others are counted as dropped.

    Raises:
        RedisUnavailable: some may have been removed, and are counted then.
        RedisRefused: a key is of another type; nothing was removed.
    """
    args: list[str | bytes | float] = [repr(now), repr(expired_at), secrets.token_hex(6)]
    args.append(repr(now - KEPT_S))
    for pair in zip(members, scores, strict=True):
        args += pair
    answers = connection.script(_TRIM, [keys.dead, keys.dead_trimmed], args)
    return [bool(answer) for answer in answers]


def dropped_in(notes: Sequence[bytes]) -> int:
    """The sum of what `trim_dead.lua` has noted; what is no such note counts for nothing."""
    counts = [note.partition(b" ")[0] for note in notes]
    return sum(int(count) for count in counts if count.isdigit())
