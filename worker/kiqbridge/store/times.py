"""How long one connection waits: its own times, less where a deadline is nearer."""

from typing import Self

from redis.connection import AbstractConnection

from kiqbridge.records import dataclass
from kiqbridge.store import deadline


@dataclass(slots=True)
class Times:
    """Seconds that a connection waits for the server to be there, and to answer; None = for ever."""

    connect_s: float | None = None
    reply_s: float | None = None
    is_bound: bool = False

    @classmethod
    def of(cls, connection: AbstractConnection) -> Self:
        """Those that it was made with."""
        return cls(connection.socket_connect_timeout, connection.socket_timeout)

    def bound(self, connection: AbstractConnection, most_s: float | None = None) -> None:
        """Let what comes next take `most_s` seconds at most, and no longer than the deadline.

        Raises:
            RedisUnavailable: the deadline is over.
        """
        rest_s = deadline.bounded(float("inf") if most_s is None else most_s)
        most_s = None if rest_s == float("inf") else rest_s
        if most_s is None and not self.is_bound:
            return
        self.is_bound = most_s is not None
        connection.socket_connect_timeout = _least(self.connect_s, most_s)
        connection.socket_timeout = reply_s = _least(self.reply_s, most_s)
        opened = getattr(connection, "_sock", None)
        if opened is not None:
            opened.settimeout(reply_s)


def _least(seconds: float | None, most_s: float | None) -> float | None:
    if seconds is None or most_s is None:
        return seconds if most_s is None else most_s
    return min(seconds, most_s)
