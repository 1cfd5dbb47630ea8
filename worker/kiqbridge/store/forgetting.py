"""Forgetting guards and ledgers whose time is over.

They have no TTL, since a server whose memory is full evicts keys with a TTL first. Each push forgets
some; the rest, and those that no push touches any more, are left to the leader.
"""

from typing import Final

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
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
    are_all = forget_over(connection, keys.guards, keys.guards_until)
    return are_all & _forget_ledgers(connection, keys)


def forget_over(connection: RedisConnection, kept: str, until: str) -> bool:
    """Forget what is over of a hash, by a sorted set that says when; otherwise as `forget_what_is_over`."""
    for _ in range(FORGET_ROUNDS):
        forgotten = connection.script(_FORGET_GUARDS, [kept, until], [FORGET_AT_ONCE])
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
