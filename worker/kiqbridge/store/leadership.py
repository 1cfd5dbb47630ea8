"""One leader at a time, by a key that ends by itself: the poller's lead, and the lock of the isolation."""

from typing import Final

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection

_LEAD: Final = scripts.load("lead")


def take_lead(connection: RedisConnection, key: str, who: str, lead_ms: int) -> bool:
    """Take or renew the lead for so many milliseconds; whether `who` leads now.

    Works also while the server's memory is full, which SET … NX does not: due jobs would wait for a
    leader until there is room again.

    Raises:
        RedisUnavailable: not known; repeat it.
    """
    return bool(connection.script(_LEAD, [key], [who, lead_ms]))


def renew_lead(connection: RedisConnection, key: str, who: str, lead_ms: int) -> bool:
    """Renew the lead of `who` for so many milliseconds; whether it still leads.

    One command, where the script takes three. Should another process lead by now, that lead is prolonged
    once, which costs nothing as long as its holder lives.

    Raises:
        RedisUnavailable: not known; repeat it.
    """
    leader: bytes | None = connection.call("GETEX", key, "PX", lead_ms)
    return leader == who.encode()


def release_lead(connection: RedisConnection, key: str, who: str) -> None:
    """End the lead of `who`; that of another process stays.

    Raises:
        RedisUnavailable: not known; it ends by itself.
    """
    connection.script(_LEAD, [key], [who, 0])
