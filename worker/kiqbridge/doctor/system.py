"""What the rules look at: one server, read at most once for all rules."""

import time
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kiqbridge.api import Operator
from kiqbridge.errors import RedisRefused
from kiqbridge.store.eviction import parse_info

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.wire.keys import Keys

MOST_NAMES: Final = 1000
"""Queues and ledgers that are looked at, so that a check never takes long."""


class System:
    """A server, a namespace and what a worker would be started with.

    Args:
        operator: where.
        environ: of a worker.

    Attributes:
        pool: connections to the server.
        keys: the namespace.
        connection: for all that is read.
        environ: of a worker.
    """

    def __init__(self, operator: Operator, environ: Mapping[str, str]) -> None:
        self.operator = operator
        self.pool: RedisPool = operator.pool
        self.keys: Keys = operator.keys
        self.connection: RedisConnection = self.pool.connection()
        self.environ = environ
        self.info = cache(self._info)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.connection.close()

    @cached_property
    def now(self) -> float:
        """Of this machine, epoch seconds."""
        return time.time()

    @cached_property
    def server_now(self) -> float:
        """Of the server, epoch seconds."""
        seconds, microseconds = self.connection.call("TIME")
        return int(seconds) + int(microseconds) / 1_000_000

    def config(self, name: str) -> str | None:
        """A setting of the server; None where this user is one of few rights, or the server refuses.

        A user of few rights is not asked for it: a refusal would stand in the server's ACL LOG.
        """
        if self.pool.user != "default":
            return None
        try:
            reply = self.connection.call("CONFIG", "GET", name)
        except RedisRefused:
            return None
        return reply[1].decode("utf-8", "replace") if len(reply) > 1 else None

    def kinds(self, names: Sequence[str]) -> dict[str, str]:
        """Key → its type, as TYPE answers it."""
        replies = self.connection.run(*(("TYPE", name) for name in names)) if names else []
        return {name: reply.decode() for name, reply in zip(names, replies, strict=True)}

    def members(self, key: str, kind: str) -> list[str]:
        """Names in a key of this type, a set or a sorted set; not more than are looked at."""
        if kind == "set":
            found: list[bytes] = self.connection.call("SSCAN", key, 0, "COUNT", MOST_NAMES)[1]
        elif kind == "zset":
            found = self.connection.call("ZRANGE", key, 0, MOST_NAMES - 1)
        else:
            found = []
        return [name.decode("utf-8", "surrogateescape") for name in found]

    def _info(self, section: str) -> Mapping[str, str]:
        return parse_info(self.connection.call("INFO", section))
