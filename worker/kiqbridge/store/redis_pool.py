"""Connections to one server, shared by the threads of a process."""

import contextlib
import os
import queue
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from redis.connection import AbstractConnection

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.errors import RedisUnavailable
from kiqbridge.runtime import job_forks
from kiqbridge.runtime.interruption import PENDING, checkpoint
from kiqbridge.store.connection_faults import Fault, probe, probe_nodes
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.redis_address import READ_TIMEOUT_S
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_source import open_source
from kiqbridge.store.replies import ANSWERS, WAIT_TIMEOUT_MS, Replicas, parse_replicas
from kiqbridge.store.round_trip import Command
from kiqbridge.store.scripts import Script

IDLE_S: Final = 20.0
"""Seconds after which an unused connection is closed."""
POOL_SIZE: Final = 16
POOL_WAIT_S: Final = 30.0
"""Longer than any call takes, whether Redis answers it or not."""


class StandIn(Protocol):
    """What answers in the place of every server, for tests (kiqbridge.testing); as the methods of `RedisPool`."""

    def run(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands."""

    def script(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | float]
    ) -> Any:
        """The answer of a script."""


_stand_in: StandIn | None = None

_forks = 0
"""Forks between this process and the first one. A look at its number would be a call to the system for each push."""


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - a fact about this process
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def use_stand_in(stand_in: StandIn | None) -> StandIn | None:
    """Set what all pools of this process ask, None = their servers; returns what they asked before."""
    global _stand_in
    former, _stand_in = _stand_in, stand_in
    return former


def has_stand_in() -> bool:
    """Whether no server is asked now."""
    return _stand_in is not None


class RedisPool:
    """Connections to one server, made when needed, handed out to one thread at a time.

    Safe to carry over a fork: the child starts with no connection.

    Args:
        url: redis://, rediss:// (TLS) or unix:// address, or one of sentinels (`sentinel`) or of a cluster
            (`cluster`); or what the settings say about it, with a secret or IAM.
        namespace: of all keys, which says where they lie in a cluster; None: what the settings say.
        client: an existing redis-py client whose address and credentials are used instead.
        size: how many connections may be out at once; further callers wait. As large as what may use
            it at once: connections are only made when they are needed.
        read_timeout_s: seconds until a silent server counts as lost.
        wait_s: how long a caller waits while all connections are out, then `RedisUnavailable`.
        settle_replicas: how many replicas must confirm what becomes of a claimed job.

    Raises:
        ConfigError: the address, one of its options or `settle_replicas` is wrong; nothing is opened.
    """

    def __init__(
        self,
        url: str | RedisAccess | None = None,
        *,
        client: "redis.Redis | None" = None,
        size: int = POOL_SIZE,
        read_timeout_s: float = READ_TIMEOUT_S,
        wait_s: float = POOL_WAIT_S,
        settle_replicas: int = 0,
        namespace: str | None = None,
    ) -> None:
        self._source = open_source(url, client, read_timeout_s, namespace)
        self._given = (
            client  # which finds the primary for its connections, if it is one of sentinels
        )
        self.size = size
        self._wait_s = wait_s
        self._settle_replicas = parse_replicas(
            settle_replicas, WAIT_TIMEOUT_MS, source="settle_replicas"
        )
        self._reset()
        _pools.add(self)

    def __repr__(self) -> str:
        return f"RedisPool({self.address}, {len(self._idle)} idle)"

    @property
    def follows_slots(self) -> bool:
        """Whether the address is one of a cluster, so that connections go to the owner of the slot of our keys.

        Reads a stored address if that was not done yet.
        """
        return self._source.nodes is not None

    def connection(self, *, timeout_s: float | None = None) -> RedisConnection:
        """A new connection that belongs to the caller and is not counted.

        `timeout_s` is for both connecting and reading; default: the pool's.
        """
        made = RedisConnection(self._source, partial(self._make, timeout_s=timeout_s))
        made.settle_replicas = self._settle_replicas
        return made

    def shared_connection(self) -> "SharedConnection":
        """What behaves as a connection of its own, for one thread, and borrows one for each call; not counted either.

        Most threads of a worker ask Redis for something now and then. With a connection of its own for each of them,
        a thousand idle processes would reach a server's limit of 10,000 clients.
        """
        made = SharedConnection(self._source, self._make)
        made.settle_replicas = self._settle_replicas
        made.pool = self
        return made

    def take(self) -> RedisConnection:
        """A connection that idles, the last one that was used, so that the others go on idling; or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.connection()

    def put(self, connection: RedisConnection) -> None:
        """Give it back, in whatever state."""
        self._idle.append(connection)

    def raw_connection(self, *, protocol: int = 3) -> AbstractConnection:
        """A redis-py connection without any retries for readers of pushed messages (RESP 3).

        It is open already if its address is one that may change: so a new password is noticed here.

        Raises:
            RedisError: such an address cannot be read, or its server cannot be reached.
        """
        made = self._make(protocol=protocol)
        if self._source.is_fixed:
            return made
        version = self._source.version
        try:
            made.connect()  # type: ignore[no-untyped-call]
        except (redis.exceptions.RedisError, OSError) as error:
            made.disconnect()  # type: ignore[no-untyped-call]
            if not self._source.renew(version, error):
                raise
            made = self._make(protocol=protocol)
        return made

    def _make(self, *, protocol: int = 2, timeout_s: float | None = None) -> AbstractConnection:
        made = self._source.make(protocol=protocol, timeout_s=timeout_s)
        self._made.add(made)
        return made

    @property
    def address(self) -> str:
        """Where connections go, as it may be shown."""
        return self._source.address

    @property
    def user(self) -> str:
        """The user whose name stands in the address; `default` if none does."""
        return self._source.user

    @property
    def host(self) -> str:
        """Where connections go: a name or an address, or the path of a socket; empty if that is not known yet."""
        return str(self._known("host") or self._known("path") or "")

    @property
    def database(self) -> int:
        """The number of the database that the address names; 0 if it names none."""
        return int(str(self._known("db") or 0))

    @property
    def place(self) -> tuple[str, int, int]:
        """Host (or path of a socket), port and database; two spellings of one address have one place."""
        host = "127.0.0.1" if self.host in ("", "localhost", "::1") else self.host
        return host, int(str(self._known("port") or 6379)), self.database

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted; False while the address was not read."""
        factory = self._source.known
        return factory is not None and issubclass(
            factory.connection_class, redis.connection.SSLConnection
        )

    @property
    def checks_certificate(self) -> bool:
        """Whether, with TLS, a server must have a certificate that a known authority signed."""
        return self._known("ssl_cert_reqs") not in ("none", "optional")

    def _known(self, option: str) -> object:
        factory = self._source.known
        return factory.connection_kwargs.get(option) if factory is not None else None

    def probe(self, after: RedisUnavailable) -> Fault | None:
        """After a failed call: whether the server uses TLS and the address does not, or the reverse."""
        factory = self._source.known
        if factory is None or isinstance(after.__cause__, ANSWERS):  # it understood the call
            return None
        uses_tls = issubclass(factory.connection_class, redis.connection.SSLConnection)
        nodes = self._source.nodes
        if nodes is not None:
            return probe_nodes(nodes.places, factory.connection_kwargs, uses_tls=uses_tls)
        return probe(factory.connection_kwargs, uses_tls=uses_tls)

    def run(
        self, *commands: Command, repeatable: bool = True, replicas: Replicas | None = None
    ) -> list[Any]:
        """Send commands on a connection of the pool and return their replies, as `RedisConnection.run` does.

        Raises:
            RedisUnavailable: also when no connection becomes free within `wait_s` seconds.
        """
        if _stand_in is not None:
            return _stand_in.run(commands)
        replies: list[Any] = self._lend(RedisConnection.run, commands, repeatable, replicas)
        return replies

    def call(self, *command: str | bytes | float) -> Any:
        """Run one command on a connection of the pool, and return its reply. Raises what `RedisConnection.call` raises."""
        return self.run(command)[0]

    def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool = True,
        replicas: Replicas | None = None,
    ) -> Any:
        """Run a script on a connection of the pool. Arguments and errors are those of `RedisConnection.script`."""
        if _stand_in is not None:
            return _stand_in.script(script, keys, args)
        return self._lend(RedisConnection.script, (script, keys, args), repeatable, replicas)

    def close(self) -> None:
        """Close the idle connections; the pool can be used again."""
        while self._idle:
            self._idle.pop().close()

    def trim(self, idle_s: float = IDLE_S) -> None:
        """Close the connections of the pool that were unused for so many seconds."""
        while True:
            try:
                connection = self._idle.popleft()
            except IndexError:
                return
            if connection.idle_s < idle_s:
                self._idle.appendleft(connection)
                return
            connection.close()

    def close_all(self) -> None:
        """Close every connection that was made here, also those that belong to others by now.

        For the end of a process whose threads have ended.
        """
        for connection in list(self._made):
            with contextlib.suppress(Exception):  # as in RedisConnection.close
                connection.disconnect()  # type: ignore[no-untyped-call]

    def _lend(
        self,
        call: Callable[..., Any],
        args: Sequence[Any],
        repeatable: bool,  # noqa: FBT001 - a keyword costs time, and most pushes pass here
        replicas: Replicas | None,
    ) -> Any:
        """What a method of `RedisConnection` answers on a connection of the pool."""
        if self._forks != _forks:
            self._reset()
        slots = self._slots
        slot = self._slot(slots)
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connection()
            try:
                return call(connection, *args, repeatable=repeatable, replicas=replicas)
            finally:
                self._idle.append(connection)
        finally:
            slots.put(slot)
            if PENDING:  # a job that waits in our functions, or does little but call them, is interrupted here
                checkpoint()

    def _slot(self, slots: "queue.SimpleQueue[_Slot]") -> "_Slot":
        try:
            return slots.get(timeout=self._wait_s)
        except queue.Empty:
            raise RedisUnavailable(
                f"all {self.size} connections to Redis at {self.address} have been in use for "
                f"{self._wait_s:g} s, so that the call was not sent; Redis is slow, or more threads use "
                "this client than its pool has connections: give Client(pool=RedisPool(size=…)) as many "
                "as there are threads"
            ) from None

    def _reset(self) -> None:
        self._forks = _forks
        self._source.after_fork()
        self._idle: deque[RedisConnection] = deque()
        self._made: weakref.WeakSet[AbstractConnection] = weakref.WeakSet()
        # A queue of tokens is a semaphore written in C.
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for _ in range(self.size):
            self._slots.put(_Slot(self._slots))


RedisLike = RedisConnection | RedisPool
"""What runs commands: a connection, or a pool that lends one."""


class SharedConnection(RedisConnection):
    """A connection for one thread, which borrows one of the pool for each call (`RedisPool.shared_connection`)."""

    pool: RedisPool
    _last: RedisConnection | None = None

    def close(self) -> None:
        """Drop the connection that the last call has used, before somebody uses it again."""
        if self._last is not None:
            self._last.outdate()

    def _attempt(
        self, commands: Sequence[Command], *, repeatable: bool, replicas: Replicas | None = None
    ) -> list[Any]:
        self._last = connection = self.pool.take()
        try:
            connection.batch_bytes = self.batch_bytes
            return connection._attempt(commands, repeatable=repeatable, replicas=replicas)  # noqa: SLF001
        finally:
            self.batch_bytes = connection.batch_bytes
            self.pool.put(connection)


class _Slot:
    """The right to use a connection of a pool. One that gets lost comes back by itself.

    It could get lost in the instant between being taken and the `try` that gives it back, by an error
    that rises there: KeyboardInterrupt, or a library's own interruption of threads.
    """

    __slots__ = ("_slots",)

    def __init__(self, slots: "queue.SimpleQueue[_Slot]") -> None:
        self._slots = weakref.ref(slots)

    def __del__(self) -> None:
        slots = self._slots()
        if slots is not None:  # else the pool is gone
            slots.put(_Slot(slots))


_pools: "weakref.WeakSet[RedisPool]" = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the copies of the parent's sockets; redis-py shuts none down that another process opened."""
    for pool in list(_pools):
        pool.close_all()


job_forks.on_child(_close_in_child)
