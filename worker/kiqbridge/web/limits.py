"""How often somebody may do something, and how large a request may be."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.web.plain_page import Refusal

MAX_BUCKETS: Final = 10_000


class Buckets:
    """A bucket of tokens for each key; safe for threads, bounded in memory.

    Args:
        capacity: how many may be taken at once.
        per_s: how many come back in a second.
        clock: seconds, never going back.
    """

    def __init__(
        self, capacity: float, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return (1 - level) / self._per_s
            self._levels[key] = (level - 1, self._clock())
            if len(self._levels) > MAX_BUCKETS:
                self._levels.popitem(last=False)
            return 0.0

    def give_back(self, key: str) -> None:
        """Put one back: what it was taken for does not count."""
        with self._lock:
            self._levels[key] = (min(self._capacity, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        now = self._clock()
        level, at = self._levels.pop(key, (self._capacity, now))
        current = min(self._capacity, level + (now - at) * self._per_s)
        self._levels[key] = (current, now)
        return current


class BodyLimit:
    """ASGI middleware: answers 413 to a body that is larger than the limit, by its length or as it comes.

    Args:
        app: what it guards.
        most: bytes.
    """

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared[:20]) > self._most:
            await self._refuse(scope, receive, send)
            return
        size = 0
        has_begun = False

        async def count() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most:
                raise _TooLargeError
            return message

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, count, watch)
        except _TooLargeError:
            if has_begun:
                raise
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"A request may have {self._most:,} bytes (KIQBRIDGE_WEB_MAX_BODY_BYTES)."
        await Refusal(413, "Too large", detail)(scope, receive, send)


class _TooLargeError(Exception):
    """The body is larger than it may be."""
