"""Connections that several threads share, of which each is used for one call at a time.

Most threads of a worker ask Redis for something now and then. With a connection of its own for each of them, a
thousand idle processes would reach a server's limit of 10,000 clients.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import Replicas
from kiqbridge.store.round_trip import Command

IDLE_S: Final = 20.0
"""Seconds after which a connection is closed that nobody has used meanwhile."""


class SharedConnections:
    """As many connections as calls are under way at once; those that idle are closed by `trim`.

    Args:
        pool: makes the connections, which it does not count.
    """

    def __init__(self, pool: RedisPool) -> None:
        self._pool = pool
        # The last one that was used is taken first, so that the others idle.
        self._free: deque[tuple[float, RedisConnection]] = deque()
        self._doubtful: set[RedisConnection] = set()

    def __repr__(self) -> str:
        return f"SharedConnections({len(self._free)} free)"

    def connection(self) -> "SharedConnection":
        """What behaves as a connection of its own, for one thread."""
        return SharedConnection(self, self._pool.connection())

    def take(self) -> RedisConnection:
        """A connection for one call."""
        try:
            return self._free.pop()[1]
        except IndexError:
            return self._pool.connection()

    def put(self, connection: RedisConnection) -> None:
        """Give it back, in whatever state."""
        if self._doubtful and connection in self._doubtful:
            self._doubtful.discard(connection)
            connection.close()
        self._free.append((time.monotonic(), connection))

    def doubt(self, connection: RedisConnection) -> None:
        """Close one that is out of step, now or when the call ends that uses it."""
        self._doubtful.add(connection)
        free, self._free = self._free, deque()
        while free:
            self.put(free.pop()[1])

    def trim(self, idle_s: float = IDLE_S) -> None:
        """Close those that nobody has used for so many seconds."""
        while True:
            try:
                used_at, connection = self._free.popleft()
            except IndexError:
                return
            if time.monotonic() - used_at < idle_s:
                self._free.appendleft((used_at, connection))
                return
            connection.close()


class SharedConnection(RedisConnection):
    """Borrows a connection for each call; see `SharedConnections.connection`."""

    def __init__(self, shared: SharedConnections, like: RedisConnection) -> None:
        super().__init__(like._source, like._make)  # noqa: SLF001 - of the same class
        self.settle_replicas = like.settle_replicas
        self._shared = shared
        self._last: RedisConnection | None = None

    def close(self) -> None:
        """Drop the connection that the last call has used."""
        last, self._last = self._last, None
        if last is not None:
            self._shared.doubt(last)

    def _attempt(
        self, commands: Sequence[Command], *, repeatable: bool, replicas: Replicas | None = None
    ) -> list[Any]:
        self._last = connection = self._shared.take()
        try:
            connection.batch_bytes = self.batch_bytes
            return connection._attempt(commands, repeatable=repeatable, replicas=replicas)  # noqa: SLF001
        finally:
            self.batch_bytes = connection.batch_bytes
            self._shared.put(connection)
