"""One leader at a time, by a key that ends by itself: the poller's lead, and the lock of the isolation."""

import time
from typing import Final

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection

_LEAD: Final = scripts.load("lead")


class Sight:
    """A sign that another process renews, as this process sees it by its own clock.

    A TTL is an instant on the server's clock. Where that clock is set back (a failover to a replica, a
    restored machine), a sign outlives its owner by as much. So a sign whose text has not changed for its
    full term is over, whatever its TTL says; each renewal changes the text. From any thread.
    """

    def __init__(self) -> None:
        self._seen: tuple[bytes, float] = (b"", 0.0)

    def see(self, text: bytes | None, term_s: float) -> None:
        """Note the text that was read just now, None = there is none, and its term in seconds."""
        text = text or b""
        if text != self._seen[0]:
            self._seen = text, time.monotonic() + term_s

    @property
    def over(self) -> bytes:
        """The text of the sign if it is over; empty: it is not, or none was seen."""
        text, until = self._seen
        return text if time.monotonic() >= until else b""


class Lead:
    """A lead that one process of the fleet has at a time.

    Args:
        connection: where to ask; used by the thread that takes and releases.
        key: of the lead.
        who: this process.
        lead_s: seconds for which it leads after each renewal.
    """

    def __init__(self, connection: RedisConnection, key: str, who: str, lead_s: float) -> None:
        self._connection = connection
        self._key = key
        self._who = who
        self._lead_s = lead_s
        self._sight = Sight()

    def take(self) -> bool:
        """Take or renew the lead; whether this process leads now.

        Works also while the server's memory is full, which SET … NX does not: due jobs would wait for a
        leader until there is room again.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        reply = self._script(int(self._lead_s * 1000))
        if isinstance(reply, bytes):
            self._sight.see(reply, self._lead_s)
        return reply == 1

    def is_vacant(self, text: bytes | None) -> bool:
        """Whether no process leads, as the key was read just now: it is gone, or its time is over. From any thread."""
        self._sight.see(text, self._lead_s)
        return not text or text == self._sight.over

    def release(self) -> None:
        """End the lead of this process, if it has it.

        Raises:
            RedisUnavailable: not known; it ends by itself.
        """
        self._script(0)

    def _script(self, lead_ms: int) -> int | bytes:
        args: list[str | bytes | float] = [self._who, lead_ms, self._sight.over]
        reply: int | bytes = self._connection.script(_LEAD, [self._key], args)
        return reply
