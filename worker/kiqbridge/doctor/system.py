"""What the rules look at: one server, read at most once for all rules."""

import time
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge.api import Operator, ProcessSet
from kiqbridge.doctor.fleet import Fleet
from kiqbridge.doctor.sample import SETS, Sample, take_sample
from kiqbridge.errors import RedisRefused
from kiqbridge.store.eviction import parse_info

if TYPE_CHECKING:
    from kiqbridge.doctor.redis_rights import Role
    from kiqbridge.store.redis_connection import RedisConnection
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.store.round_trip import Command
    from kiqbridge.wire.keys import Keys

MOST_NAMES: Final = 1000
"""Queues and ledgers that are looked at, so that a check never takes long."""


class System:
    """A server, a namespace and what a worker would be started with.

    Args:
        operator: where.
        environ: of a worker.
        needs: whose rights this user must have.
        stop_timeout_s: seconds after which the orchestrator kills a worker that is to stop; None = not known.

    Attributes:
        pool: connections to the server.
        keys: the namespace.
        connection: for all that is read.
        environ: of a worker.
    """

    def __init__(
        self,
        operator: Operator,
        environ: Mapping[str, str],
        needs: "Sequence[Role]" = ("worker",),
        stop_timeout_s: float | None = None,
    ) -> None:
        self.operator = operator
        self.pool: RedisPool = operator.pool
        self.keys: Keys = operator.keys
        self.connection: RedisConnection = self.pool.connection()
        self.environ = environ
        self.needs = needs
        self.stop_timeout_s = stop_timeout_s
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

    @cached_property
    def fleet(self) -> Fleet:
        """The processes that live."""
        if self.kinds([self.keys.processes])[self.keys.processes] != "set":
            return Fleet()  # there are none, or the check of types reports it
        registered = len(self.connection.call("SMEMBERS", self.keys.processes))
        # Not the set itself: `list` would ask for its length, for which a worker's user has no right.
        return Fleet(processes=list(iter(ProcessSet(self.operator))), registered=registered)

    @cached_property
    def sample(self) -> Sample:
        """Some jobs of each queue and set."""
        names = self.members(self.keys.queues, self.kinds([self.keys.queues])[self.keys.queues])
        kinds = self.kinds([self.keys.queue(name) for name in names])
        queues = sorted(name for name in names if kinds[self.keys.queue(name)] == "list")
        return take_sample(self.connection, self.keys, queues, list(self.sets(*SETS)))

    def sets(self, *names: str) -> dict[str, str]:
        """Those of the sorted sets `schedule`, `retry`, `dead` that are there and are sorted sets, and their keys."""
        keys = {name: str(getattr(self.keys, name)) for name in names}
        kinds = self.kinds(list(keys.values()))
        return {name: key for name, key in keys.items() if kinds[key] == "zset"}

    def try_run(self, *commands: "Command") -> list[Any] | None:
        """Replies; None where the server refuses one."""
        try:
            return self.connection.run(*commands)
        except RedisRefused:
            return None

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
