"""The time until which calls to Redis must have ended, such as the end of a Lambda invocation.

Within `deadline.within(seconds)` no connect and no wait for a reply takes longer than what is left, in
this thread. Without one the times of the pool hold.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from redis.connection import AbstractConnection

from kiqbridge.errors import RedisUnavailable
from kiqbridge.runtime.records import dataclass

_until: ContextVar[float | None] = ContextVar("kiqbridge_redis_deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Within, calls to Redis end this many seconds from now; the earlier one holds of two.

    A call that has not been sent by then raises `RedisUnavailable`; one whose reply did not come by then
    fails as after any lost reply.
    """
    until = time.monotonic() + seconds
    former = _until.get()
    token = _until.set(until if former is None else min(until, former))
    try:
        yield
    finally:
        _until.reset(token)


def left() -> float | None:
    """Seconds until the deadline, 0 when it is over; None without one."""
    until = _until.get()
    return None if until is None else max(until - time.monotonic(), 0.0)


def is_over() -> bool:
    """Whether there is a deadline and it is over."""
    return left() == 0.0


def bounded(seconds: float) -> float:
    """`seconds`, or the time that is left if it is less.

    Raises:
        RedisUnavailable: no time is left.
    """
    rest = left()
    if rest is None:
        return seconds
    if not rest:
        raise RedisUnavailable(
            "nothing was sent to Redis: no time is left before the deadline; the calls before took all of it, so "
            "look at what they waited for, or give the function a longer time-out"
        )
    return min(seconds, rest)


@dataclass(slots=True)
class Times:
    """Seconds that a connection waits for the server to be there, and to answer; None = for ever."""

    connect_s: float | None = None
    reply_s: float | None = None
    is_bound: bool = False

    @classmethod
    def of(cls, connection: AbstractConnection) -> Self:
        """The times with which the deadline was made."""
        return cls(connection.socket_connect_timeout, connection.socket_timeout)

    def bound(self, connection: AbstractConnection, most_s: float | None = None) -> None:
        """Let what comes next take `most_s` seconds at most, and no longer than the deadline.

        Raises:
            RedisUnavailable: the deadline is over.
        """
        rest_s = bounded(float("inf") if most_s is None else most_s)
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
