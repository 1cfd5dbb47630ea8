"""How we talk to Redis: connections, what happens when one fails, and nothing about jobs.

redis-py repeats commands by itself, which duplicates a push whose reply was lost; here nothing is
repeated unless the caller says that it may be. Three things can happen to a call:

1. it never reached a server (refused, no route): tried once more, then `RedisUnavailable`;
2. a server refused it because it is a replica or was failing over: once more on a new connection
   (protocol §1, failover rule);
3. it was sent and the reply was lost: repeated if `repeatable`, else `ReplyLost`.
"""

import array
import contextlib
import fcntl
import logging
import os
import queue
import re
import termios
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection
from redis.retry import Retry

from kiqbridge import descriptors, job_forks, threads
from kiqbridge.batches import BATCH_BYTES
from kiqbridge.connection_faults import Fault, fault_of, probe
from kiqbridge.errors import (
    ConfigError,
    KiqbridgeError,
    RedisMisconfigured,
    RedisRefused,
    RedisUnavailable,
)
from kiqbridge.names import bytes_of
from kiqbridge.scripts import Script
from kiqbridge.wrong_types import with_hint

logger = logging.getLogger(__name__)

Command = Sequence[str | bytes | int | float]

DEFAULT_URL = "redis://localhost:6379/0"
SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 3.0
WAIT_TIMEOUT_MS = 1000
_WAIT_MARGIN_MS = 500
"""WAIT must answer before its silence counts as a lost reply."""
POOL_SIZE = 16
POOL_WAIT_S = 30.0
"""Longer than any call takes that Redis answers, and than one that it does not answer."""
PIECE_BYTES = 65_536
"""More is sent piece by piece, so that a slow link counts as lost only when nothing at all gets through."""
_SENT_BYTES = 4 * PIECE_BYTES
_LEAST_BATCH_BYTES = 16_384
PROBE_AFTER_IDLE_S = 5.0
"""A connection unused for longer is probed before a call that must not be repeated: a frozen
Lambda or a NAT gateway may have lost it without telling."""

_QUERY_PASSWORD = re.compile(r"([?&](?:sentinel_)?password=)[^&]*")
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")
_NOT_TAKEN_OVER = ("maint_notifications", "oss_cluster_maint", "orig_")
"""Of a given client's settings: a managed service's notices, which need RESP 3, and their state."""

_FAILOVER = ("READONLY", "NOREPLICAS", "UNBLOCKED")
_AWAY = (
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "OOM",
    "MISCONF",
    "TRYAGAIN",
    "NOAUTH",
    "WRONGPASS",
)

_ANSWERS = (
    redis.exceptions.ResponseError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.MasterDownError,
    redis.exceptions.AuthenticationError,
)
"""Errors that a server answered with; the call was not carried out."""


_OUTSTANDING: int | None = getattr(termios, "TIOCOUTQ", None)
"""For ioctl: how much of what was written to a socket has not been acknowledged by the other end."""


class ReplyLost(KiqbridgeError):  # noqa: N818 - says what happened; callers translate it
    """The call was sent, and no reply came: it may or may not have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How many replicas must confirm a write, and how long to wait for them (WAIT)."""

    count: int
    timeout_ms: int


class NotReplicated(KiqbridgeError):  # noqa: N818 - says what happened; callers translate it
    """The call was carried out, but too few replicas confirmed it.

    Attributes:
        replies: of the commands before WAIT; none is an error.
    """

    def __init__(self, message: str, replies: list[Any]) -> None:
        super().__init__(message)
        self.replies = replies


def parse_replicas(count: object, timeout_ms: object, *, source: str) -> Replicas | None:
    """How many replicas are to confirm a write, None for 0; `source` says where the number is from.

    Raises:
        ConfigError: not a whole number, or a longer wait than a reply is waited for.
    """
    try:
        number = int(str(count))
    except ValueError:
        number = -1
    if number < 0 or isinstance(count, bool):
        raise ConfigError(
            f"wait_replicas: {count!r} is not a whole number from 0 (from {source}); write how many "
            "replicas shall confirm a push, 0 to wait for none"
        )
    most = int(READ_TIMEOUT_S * 1000) - _WAIT_MARGIN_MS
    if type(timeout_ms) is not int or not 0 < timeout_ms <= most:
        raise ConfigError(
            f"wait_timeout_ms: {timeout_ms!r} is not a whole number from 1 to {most:,}; a silent server "
            f"counts as lost after {READ_TIMEOUT_S:.0f} s"
        )
    return Replicas(count=number, timeout_ms=timeout_ms) if number else None


def url_from_environment(environ: Mapping[str, str]) -> str:
    """The address as Sidekiq reads it: the variable named by REDIS_PROVIDER, else REDIS_URL (§1).

    Raises:
        ConfigError: REDIS_PROVIDER holds an address instead of a variable's name, or names a
            variable that is not set.
    """
    provider = environ.get("REDIS_PROVIDER")
    if not provider:
        return environ.get("REDIS_URL") or DEFAULT_URL
    if ":" in provider:
        raise ConfigError(
            "REDIS_PROVIDER must be the name of a variable that holds the address, not the address; "
            "set REDIS_URL to the address instead"
        )
    if not environ.get(provider):
        raise ConfigError(
            f"REDIS_PROVIDER names {provider}, which is not set; set it or remove REDIS_PROVIDER"
        )
    return environ[provider]


def without_password(url: str) -> str:
    """The address as it may be shown."""
    # Not urlsplit: a password with a slash or bracket in it, which should have been quoted, would
    # be taken for the path, or refused; just such an address ends up in an error message.
    url = _QUERY_PASSWORD.sub(r"\1***", url)
    scheme, separator, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user if colon else ''}:***@{host}"


class RedisConnection:
    """One connection, used by one thread at a time, opened when first needed.

    A silent server counts as lost after the read timeout; a slow link does not, as long as bytes get
    through, however few.

    Attributes:
        batch_bytes: how long a call may be that is made of parts, such as jobs: a quarter after one that
            did not get through, and an eighth more after each that did, up to `BATCH_BYTES`.
        settle_replicas: who must confirm a script that settles jobs; None: nobody.
    """

    def __init__(self, connection: AbstractConnection, address: str) -> None:
        self._connection = connection
        self._address = address
        self._used_at = time.monotonic()
        self._forks = job_forks.count
        self._descriptor: descriptors.Descriptor | None = None
        self.batch_bytes = BATCH_BYTES
        self.settle_replicas: Replicas | None = None
        self._is_in_doubt = False

    def __repr__(self) -> str:
        return f"RedisConnection({self._address})"

    def run(
        self, *commands: Command, repeatable: bool = True, replicas: Replicas | None = None
    ) -> list[Any]:
        """Send commands in one go and return their replies, bytes as bytes.

        Raises:
            RedisUnavailable: no server carried it out.
            ReplyLost: sent, but no reply, and not `repeatable`.
            RedisRefused: a command was answered with an error.
            NotReplicated: carried out, but confirmed by fewer replicas than `replicas` asks for.
        """
        return self._checked(
            self._attempt(commands, repeatable=repeatable, replicas=replicas), replicas
        )

    def call(self, *command: str | bytes | float) -> Any:
        """One repeatable command and its reply; raises as `run`."""
        return self.run(command)[0]

    def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool = True,
        replicas: Replicas | None = None,
        settles: bool = False,
    ) -> Any:
        """Run a script by its hash, loading it where the server does not know it; raises as `run`.

        One that `settles` jobs waits for `settle_replicas` and, unlike others, only logs when they do
        not confirm it: it cannot be taken back, and repeating it would change nothing.
        """
        if settles and self.settle_replicas is not None:
            return self._settle(script, keys, args, self.settle_replicas)
        evalsha = ("EVALSHA", script.sha, len(keys), *keys, *args)
        replies = self._attempt([evalsha], repeatable=repeatable, replicas=replicas)
        if isinstance(replies[0], redis.exceptions.NoScriptError):
            evaluate = ("EVAL", script.text, len(keys), *keys, *args)
            replies = self._attempt([evaluate], repeatable=repeatable, replicas=replicas)
        return self._checked(replies, replicas)[0]

    def _settle(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        replicas: Replicas,
    ) -> Any:
        try:
            reply = self.script(script, keys, args, replicas=replicas)
        except NotReplicated as doubt:
            if not self._is_in_doubt:  # once, until it goes well again
                logger.warning(
                    "jobs were settled on the primary only: %s. A failover now may lose what became of them; "
                    "check the replicas",
                    doubt,
                )
            self._is_in_doubt = True
            return doubt.replies[0]
        self._is_in_doubt = False
        return reply

    def close(self) -> None:
        """Drop the connection; the next call opens a new one."""
        if self._descriptor is not None:
            self._descriptor.check()  # else a stranger's connection would be shut down
        with contextlib.suppress(Exception):  # it is being thrown away whatever it says
            self._connection.disconnect()  # type: ignore[no-untyped-call]

    def _checked(self, replies: list[Any], replicas: Replicas | None) -> list[Any]:
        """The replies of the commands themselves; raises what one of them, or WAIT, tells."""
        answers = replies[:-1] if replicas else replies
        for reply in answers:
            if isinstance(reply, Exception):
                raise self._translate(reply) from reply
        if replicas is None:
            return answers
        confirmed = replies[-1]
        if isinstance(confirmed, Exception):
            raise NotReplicated(f"WAIT failed: {_error_text(confirmed)}", answers) from confirmed
        if confirmed < replicas.count:
            raise NotReplicated(
                f"{confirmed} of {replicas.count} replicas confirmed within {replicas.timeout_ms} ms",
                answers,
            )
        return answers

    def _attempt(
        self, commands: Sequence[Command], *, repeatable: bool, replicas: Replicas | None = None
    ) -> list[Any]:
        if self._forks != job_forks.count:
            job_forks.refuse("this connection to Redis")
        if self._descriptor is not None:
            self._descriptor.check()
        count = len(commands)
        if replicas is not None:
            commands = [*commands, ("WAIT", replicas.count, replicas.timeout_ms)]
        if not repeatable:
            self._probe()
        replies: list[Any] = [None] * len(commands)
        sent: Sequence[int] = range(len(commands))
        for last in (False, True):
            asked = [commands[index] for index in sent]
            fresh = self._exchange(asked, repeatable=repeatable, last=last)
            if fresh is None:
                continue
            for index, reply in zip(sent, fresh, strict=True):
                replies[index] = reply
            # Not WAIT's own reply: UNBLOCKED there follows a write that was carried out.
            refused = [index for index in range(count) if _is_failover(replies[index])]
            if not refused:
                return replies
            self.close()
            if not repeatable:  # what a server took before it refused the rest stays as it is
                sent = [*refused, *range(count, len(commands))]
        return replies

    def _exchange(
        self, commands: Sequence[Command], *, repeatable: bool, last: bool
    ) -> list[Any] | None:
        """The replies; None when they were lost and may be asked for again."""
        packed = _packed(commands)
        self._connect(last=last)
        try:
            return self._round_trip(packed, len(commands))
        except (redis.exceptions.RedisError, OSError) as error:  # also an answer that is none
            self.close()
            is_timeout = isinstance(error, redis.exceptions.TimeoutError | TimeoutError)
            is_stuck = is_timeout and len(packed[0]) > PIECE_BYTES
            if is_stuck:
                self._send_less(len(packed[0]))
            if not repeatable:
                raise ReplyLost(f"no reply from {self._address}: {error}") from error
            # What is long and got stuck is not sent again as it is: the caller may divide it.
            if last or is_stuck:
                raise self._unavailable(error) from error
            return None
        except BaseException:
            self.close()  # a half-read reply must never be taken for the next one
            raise

    def _round_trip(self, packed: list[bytes], count: int) -> list[Any]:
        connection = self._connection
        unsent = 0
        if len(packed[0]) > PIECE_BYTES:
            unsent = self._send_in_pieces(packed[0])
        else:
            connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
        replies: list[Any] = []
        while len(replies) < count:
            try:
                replies.append(connection.read_response(disconnect_on_error=False))
            except redis.exceptions.TimeoutError:
                before, unsent = unsent, unsent_bytes(connection)
                if unsent >= before:  # nothing of the call left this host all the while
                    raise
                threads.beat()
            except _ANSWERS as error:
                replies.append(error)
        self._used_at = time.monotonic()
        if self.batch_bytes < BATCH_BYTES and len(packed[0]) > self.batch_bytes // 2:
            self.batch_bytes = min(self.batch_bytes + self.batch_bytes // 8, BATCH_BYTES)
        return replies

    def _send_in_pieces(self, packed: bytes) -> int:
        """Send as long as bytes get through; how many have not left this host when all are handed over.

        Raises:
            OSError: none did within the timeout.
        """
        connection = self._connection
        # redis-py itself gives one timeout to the whole of a command.
        sock: Any = connection._sock  # noqa: SLF001
        rest = memoryview(packed)
        unsent = len(packed)
        while rest:
            try:
                sent = sock.send(rest[:_SENT_BYTES])
            except TimeoutError:
                before, unsent = unsent, unsent_bytes(connection)
                if unsent >= before:
                    raise
            else:
                rest = rest[sent:]
                unsent = len(packed)
            threads.beat()  # it gets on, however long it takes
        return unsent_bytes(connection)

    def _send_less(self, size: int) -> None:
        self.batch_bytes = max(min(size, self.batch_bytes) // 4, _LEAST_BATCH_BYTES)
        logger.warning(
            "a call of %s bytes to Redis at %s did not get through: nothing moved until its timeout; batches of "
            "jobs have %s bytes at most now, and what cannot be divided is tried again. Check the network to "
            "Redis, and its slow log",
            f"{size:,}",
            self._address,
            f"{self.batch_bytes:,}",
        )

    def _connect(self, *, last: bool) -> None:
        for final in (last, True):
            try:
                self._connection.connect()  # type: ignore[no-untyped-call]
            except (redis.exceptions.RedisError, OSError) as error:
                self.close()
                if final:
                    raise self._unavailable(error) from error
            else:
                if descriptors.is_watching:
                    self._note_descriptor()
                return

    def _note_descriptor(self) -> None:
        opened = getattr(self._connection, "_sock", None)
        if opened is not None and (
            self._descriptor is None or self._descriptor.opened is not opened
        ):
            self._descriptor = descriptors.Descriptor(opened)

    def _probe(self) -> None:
        if time.monotonic() - self._used_at < PROBE_AFTER_IDLE_S:
            self._drop_if_ended()
            return
        try:
            self._connect(last=True)
            self._round_trip(_packed([("PING",)]), 1)
        except (redis.exceptions.RedisError, OSError, RedisUnavailable):
            self.close()

    def _drop_if_ended(self) -> None:
        """Let go of a connection that the server has ended meanwhile, without a round trip."""
        if not self._connection.is_connected:
            return
        try:
            ended = self._connection.can_read(0)  # nothing was asked, so nothing may come
        except (redis.exceptions.RedisError, OSError):
            ended = True
        if ended:
            self.close()

    def _unavailable(self, error: Exception) -> RedisUnavailable:
        fault = fault_of(error, uses_tls=isinstance(self._connection, redis.SSLConnection))
        if fault is not None:
            return RedisMisconfigured(f"Redis at {self._address} cannot be reached: {fault}")
        return RedisUnavailable(
            f"Redis at {self._address} cannot be reached: {str(error).rstrip('.')}; "
            "check REDIS_URL, that the server runs, and its security group or password"
        )

    def _translate(self, error: Exception) -> KiqbridgeError:
        text = _error_text(error)
        fault = fault_of(error)
        if fault is not None:
            return RedisMisconfigured(f"Redis at {self._address} refused the call: {fault}")
        if text.startswith((*_FAILOVER, *_AWAY)):
            return RedisUnavailable(f"Redis at {self._address} refused the call: {text}")
        return RedisRefused(f"Redis at {self._address} answered with an error: {with_hint(text)}")


class RedisPool:
    """Connections to one server, made when needed, handed out to one thread at a time.

    Safe to carry over a fork: the child starts with no connection.

    Args:
        url: redis://, rediss:// (TLS) or unix:// address, or one of sentinels (`sentinel`).
        client: an existing redis-py client whose address and credentials are used instead.
        size: how many connections may be out at once; further callers wait. As large as what may use
            it at once: connections are only made when they are needed.
        read_timeout_s: seconds until a silent server counts as lost.
        wait_s: how long a caller waits while all connections are out, then `RedisUnavailable`.
        settle_replicas: how many replicas must confirm what becomes of a claimed job.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: redis.Redis | None = None,
        size: int = POOL_SIZE,
        read_timeout_s: float = READ_TIMEOUT_S,
        wait_s: float = POOL_WAIT_S,
        settle_replicas: int = 0,
    ) -> None:
        self._factory = _factory(url, client, read_timeout_s)
        self._given = (
            client  # which finds the primary for its connections, if it is one of sentinels
        )
        self.address = _shown_address(url, self._factory)
        self.size = size
        self._wait_s = wait_s
        self._settle_replicas = parse_replicas(
            settle_replicas, WAIT_TIMEOUT_MS, source="settle_replicas"
        )
        self._reset()
        _pools.add(self)

    def __repr__(self) -> str:
        return f"RedisPool({self.address}, {len(self._idle)} idle)"

    def connection(self, *, protocol: int = 2, timeout_s: float | None = None) -> RedisConnection:
        """A new connection that belongs to the caller and is not counted.

        `timeout_s` is for both connecting and reading; default: the pool's.
        """
        raw = self.raw_connection(protocol=protocol, timeout_s=timeout_s)
        made = RedisConnection(raw, self.address)
        made.settle_replicas = self._settle_replicas
        return made

    def raw_connection(
        self, *, protocol: int = 2, timeout_s: float | None = None
    ) -> AbstractConnection:
        """A redis-py connection without any retries, for readers of pushed messages."""
        kwargs = {**self._factory.connection_kwargs, "protocol": protocol}
        if timeout_s is not None:
            kwargs |= {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        made: AbstractConnection = self._factory.connection_class(**kwargs)
        self._made.add(made)
        return made

    def probe(self, after: RedisUnavailable) -> Fault | None:
        """After a failed call: whether the server speaks TLS and the address does not say so, or reverse."""
        if isinstance(after.__cause__, _ANSWERS):  # it understands us
            return None
        uses_tls = issubclass(self._factory.connection_class, redis.SSLConnection)
        return probe(self._factory.connection_kwargs, uses_tls=uses_tls)

    def run(
        self, *commands: Command, repeatable: bool = True, replicas: Replicas | None = None
    ) -> list[Any]:
        """As `RedisConnection.run`, on a connection of the pool."""
        with self._lent() as connection:
            return connection.run(*commands, repeatable=repeatable, replicas=replicas)

    def call(self, *command: str | bytes | float) -> Any:
        """As `RedisConnection.call`, on a connection of the pool."""
        with self._lent() as connection:
            return connection.call(*command)

    def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool = True,
        replicas: Replicas | None = None,
    ) -> Any:
        """As `RedisConnection.script`, on a connection of the pool."""
        with self._lent() as connection:
            return connection.script(script, keys, args, repeatable=repeatable, replicas=replicas)

    def close(self) -> None:
        """Close the idle connections; the pool can be used again."""
        while self._idle:
            self._idle.pop().close()

    def close_all(self) -> None:
        """Close every connection that was made here, also those that belong to others by now.

        For the end of a process whose threads have ended.
        """
        for connection in list(self._made):
            with contextlib.suppress(Exception):  # as in RedisConnection.close
                connection.disconnect()  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _lent(self) -> Iterator[RedisConnection]:
        if self._pid != os.getpid():
            self._reset()
        slots = self._slots
        try:
            slot = slots.get(timeout=self._wait_s)
        except queue.Empty:
            raise RedisUnavailable(
                f"all {self.size} connections to Redis at {self.address} have been in use for "
                f"{self._wait_s:g} s, so that the call was not sent; Redis is slow, or more threads use "
                "this client than its pool has connections: give Client(pool=RedisPool(size=…)) as many "
                "as there are threads"
            ) from None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connection()
            try:
                yield connection
            finally:
                self._idle.append(connection)
        finally:
            slots.put(slot)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[RedisConnection] = deque()
        self._made: weakref.WeakSet[AbstractConnection] = weakref.WeakSet()
        # A queue of tokens is a semaphore written in C.
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for _ in range(self.size):
            self._slots.put(_Slot(self._slots))


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


def unsent_bytes(connection: AbstractConnection) -> int:
    """How many bytes have been handed to the system and not yet arrived; 0 where it cannot be known."""
    sock = connection._sock  # noqa: SLF001 - redis-py does not show it
    if sock is None or _OUTSTANDING is None:
        return 0
    answer = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), _OUTSTANDING, answer)
    except OSError:
        return 0
    return answer[0]


def _packed(commands: Sequence[Command]) -> list[bytes]:
    """The bytes of commands in one piece, as redis-py packs them, in a fifth of its time."""
    pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
    try:
        if len(commands) == 1:
            return [pack(tuple(commands[0]))]
        return [b"".join([pack(tuple(command)) for command in commands])]
    except UnicodeEncodeError:  # a name that another process gave, see names.py
        return [b"".join([pack(tuple(map(_exact, command))) for command in commands])]


def _exact(part: str | bytes | float) -> str | bytes | float:
    return bytes_of(part) if isinstance(part, str) else part


def _factory(
    url: str | None, client: redis.Redis | None, read_timeout_s: float
) -> redis.ConnectionPool:
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": read_timeout_s,
        "socket_keepalive": True,
        "health_check_interval": 0,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
    }
    if client is not None:
        pool = client.connection_pool
        known = {
            name: value
            for name, value in pool.connection_kwargs.items()
            if not name.startswith(_NOT_TAKEN_OVER)
        }
        return redis.ConnectionPool(
            connection_class=pool.connection_class, **{**known, **options, "protocol": 2}
        )
    try:
        if url and url.startswith(SENTINEL_SCHEMES):
            from kiqbridge import sentinel  # noqa: PLC0415 - few have one

            return sentinel.connection_pool(url, protocol=2, **options)
        if url and url.startswith("unix://"):
            del options["socket_keepalive"]  # which such a connection does not have
        made = redis.ConnectionPool.from_url(url or DEFAULT_URL, protocol=2, **options)
        _check_options(made, url or "")
    except ValueError:
        raise ConfigError(
            f"REDIS_URL: {without_password(url or '')!r} is no address; write redis://host:6379/0, "
            "rediss://… for TLS, unix:///path, or redis+sentinel://host:26379,host:26379/SERVICE/0, and quote "
            "special characters of a password"
        ) from None  # the original quotes what it takes for the port: it may be the password
    return made


def _check_options(pool: redis.ConnectionPool, url: str) -> None:
    """Refuse options behind the address that its connections do not have; nothing is opened."""
    try:
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, redis.exceptions.RedisError) as error:
        unknown = _UNKNOWN_OPTION.search(str(error))
        what = f"{unknown[1]} is no option of such an address" if unknown else str(error)
        tls = ", and those of TLS belong to rediss://" if unknown and "ssl" in unknown[1] else ""
        raise ConfigError(
            f"REDIS_URL: {without_password(url)!r}: {what}; docs/operations.md has the options{tls}"
        ) from None


def _shown_address(url: str | None, factory: redis.ConnectionPool) -> str:
    if url:
        return without_password(url)
    known = factory.connection_kwargs
    if "connection_pool" in known:  # of redis-py's own Sentinel
        return f"sentinel service {getattr(known['connection_pool'], 'service_name', '?')}"
    if "path" in known:
        return f"unix://{known['path']}"
    return f"{known.get('host', 'localhost')}:{known.get('port', 6379)}/{known.get('db') or 0}"


def _is_failover(reply: object) -> bool:
    return isinstance(reply, Exception) and any(word in _error_text(reply) for word in _FAILOVER)


def _error_text(error: Exception) -> str:
    """The server's own words; redis-py cuts the code off those that it has a class for."""
    code = getattr(error, "status_code", None)
    text = str(error)
    return f"{code} {text}" if code and not text.startswith(str(code)) else text
