"""What the connections of a pool are made from: an address that stays, or one that is read at run time.

A stored address (Secrets Manager, SSM) is read when the first connection is made, and kept. It is read
again when the server refuses the password, since a password is rotated while this process runs, and
when the server cannot be reached, since it may have moved; neither more often than the times below.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from redis.connection import AbstractConnection

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.errors import ConfigError, KiqbridgeError, RedisMisconfigured, RedisUnavailable
from kiqbridge.store import deadline, redis_address
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.replies import is_login_refused

if TYPE_CHECKING:
    from kiqbridge.config.credentials.iam_token import IamTokens
    from kiqbridge.store.round_trip import Command
    from kiqbridge.store.scripts import Script

logger = logging.getLogger(__name__)

READ_WITHIN_S: Final = 3.0
"""Until a silent Secrets Manager counts as away."""
AFTER_REFUSAL_S: Final = 5.0
"""Between two reads because a password was refused."""
AFTER_OUTAGE_S: Final = 60.0
"""Between two reads because the server could not be reached; most outages are not a move."""
AFTER_FAILURE_S: Final = 1.0
"""After a read that failed; until then its error is raised again, for all threads."""


class Nodes(Protocol):
    """The nodes of a cluster, kept by the feature that opens such addresses.

    Attributes:
        places: host and port of each that the address names.
    """

    @property
    def places(self) -> Iterable[tuple[str, int]]: ...  # noqa: D102 - above

    def guarded(self, script: "Script", keys: Sequence[str]) -> "tuple[Script, Sequence[str]]":
        """The script and its keys, so that no node begins it while their slot is on its way to another one."""

    def until_done(
        self,
        connection: Any,
        commands: "Sequence[Command]",
        count: int,
        first: list[Any] | None,
        *,
        repeatable: bool,
    ) -> list[Any]:
        """The replies of a call that was lost or refused in part.

        Args:
            connection: the `RedisConnection` it was sent on.
            commands: with WAIT behind them, if replicas are to confirm.
            count: how many there are without it.
            first: the replies of the first attempt; None: lost, and may be repeated.
            repeatable: whether commands that were executed may be repeated.

        Raises:
            RedisUnavailable: no node carried it out.
            ReplyLost: sent, but no reply, and not repeatable.
        """


class RedisSource:
    """An address that stays the same.

    Args:
        factory: makes connections.
        address: as it may be shown.
        max_age_s: seconds after which a connection is replaced; None = it may stay open for ever.

    Attributes:
        address: as it may be shown.
        known: what makes connections; None while the address was not read yet.
        version: grows when the address changes; a connection that was made before is outdated.
        is_fixed: it never does.
    """

    is_fixed = True
    version = 0

    def __init__(
        self, factory: redis_address.Factory, address: str, *, max_age_s: float | None = None
    ) -> None:
        self.known: redis_address.Factory | None = factory
        self.address = address
        self._nodes: Nodes | None = factory.connection_kwargs.get("nodes")
        self.max_age_s = max_age_s

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address})"

    @property
    def nodes(self) -> "Nodes | None":
        """The nodes of the cluster; None if the address is not that of a cluster."""
        return self._nodes

    @property
    def user(self) -> str:
        """The user whose name stands in the address; `default` if none does, or it was not read yet."""
        known = self.known.connection_kwargs.get("username") if self.known is not None else None
        return str(known or "default")

    def factory(self) -> redis_address.Factory:
        """What makes connections.

        Raises:
            redis.exceptions.ConnectionError: the address cannot be read; its cause has the reason.
        """
        assert self.known is not None  # noqa: S101 - for the type checker
        return self.known

    def make(self, *, protocol: int, timeout_s: float | None) -> AbstractConnection:
        """A connection that is not open yet; raises as `factory`."""
        more: dict[str, Any] = {"protocol": protocol}
        if timeout_s is not None:
            more |= {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        return self.factory().make_connection(**more)

    def renew(self, version: int, error: Exception) -> bool:  # noqa: ARG002 - for those that can
        """After a connection of this version failed: whether there is a newer version now."""
        return False

    def after_fork(self) -> None:
        """In a child: let go of what threads of the parent held."""


class Stored(Protocol):
    """Where an address is read, as `StoredAddress`."""

    name: str

    def read(self, timeout_s: float, /) -> str:
        """The address; raises RedisUnavailable."""


class StoredSource(RedisSource):
    """An address that is read at run time; safe for several threads.

    Args:
        stored: reads it.
        build: makes of an address what makes connections.
        clock: monotonic seconds.
    """

    is_fixed = False

    def __init__(
        self,
        stored: Stored,
        build: Callable[[str], redis_address.Factory],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stored = stored
        self._build = build
        self._clock = clock
        self._lock = threading.Lock()
        self._url = ""
        self._read_again_at: float | None = None
        self._failed: tuple[float, type[RedisUnavailable], str] | None = None
        self.known = None
        self.address = f"the address in {stored.name}"
        self._nodes = None
        self.max_age_s = None

    @property
    def nodes(self) -> "Nodes | None":
        """As of `RedisSource`; reads the address if that was not done yet."""
        if self.known is None:
            with contextlib.suppress(redis.exceptions.ConnectionError):
                self.factory()  # the call itself reports what is wrong
        return self._nodes

    def factory(self) -> redis_address.Factory:
        """As of `RedisSource`; reads the address if that was not done yet."""
        try:
            with self._lock:
                if self.known is None:
                    self._read()
                assert self.known is not None  # noqa: S101 - for the type checker
                return self.known
        except RedisUnavailable as error:
            raise redis.exceptions.ConnectionError(str(error)) from error

    def renew(self, version: int, error: Exception) -> bool:
        """As of `RedisSource`; reads the address again, if that is due."""
        with self._lock:
            if self.known is None:
                return False  # its first read has failed, and is made again by the next call
            if version != self.version:
                return True  # another thread has read it meanwhile
            pause = AFTER_REFUSAL_S if is_login_refused(error) else AFTER_OUTAGE_S
            now = self._clock()
            if self._read_again_at is not None and now - self._read_again_at < pause:
                return False
            self._read_again_at = now
            try:
                self._read()
            except KiqbridgeError as failure:
                logger.warning("the address of Redis is kept as it is: %s", failure)
                return False
            if version == self.version:
                return False
            logger.info("%s has changed: connections now go to %s", self._stored.name, self.address)
            return True

    def after_fork(self) -> None:
        """As of `RedisSource`."""
        self._lock = threading.Lock()

    def _read(self) -> None:
        if self._failed is not None and self._clock() - self._failed[0] < AFTER_FAILURE_S:
            kind, text = self._failed[1:]
            raise kind(text)  # a new one: the other is part of another chain of causes
        try:
            url = self._stored.read(deadline.bounded(READ_WITHIN_S))
            if url == self._url:
                return
            try:
                self.known = factory = self._build(url)
                self._nodes = factory.connection_kwargs.get("nodes")
            except redis_address.UntaggedNamespace as error:
                raise RedisMisconfigured(f"{self._stored.name} cannot be used: {error}") from None
            except ConfigError:  # its text may quote parts of what should have been an address
                raise RedisMisconfigured(
                    f"{self._stored.name} cannot be used: it holds no address that can be read; write "
                    "rediss://USER:PASSWORD@HOST:6379/0, with special characters of the password quoted, or a "
                    "JSON object (docs/how_to/connections.md)"
                ) from None
        except RedisUnavailable as error:
            self._failed = (self._clock(), type(error), str(error))
            raise
        self._url = url
        self._failed = None
        self.version += 1
        self.address = redis_address.without_password(url)


def open_source(
    access: str | RedisAccess | None,
    client: "redis.Redis | None",
    read_timeout_s: float,
    namespace: str | None = None,
) -> RedisSource:
    """The source of a pool; nothing is opened or read.

    Args:
        access: an address, or all that the settings say.
        client: a client of redis-py whose address and credentials are used instead.
        read_timeout_s: seconds until a silent server counts as lost.
        namespace: of all keys; None: what the settings say.

    Raises:
        ConfigError: something of it cannot be used.
    """
    if namespace is None:
        namespace = access.namespace if isinstance(access, RedisAccess) else ""
    if not isinstance(access, RedisAccess) or client is not None:
        url = access.url if isinstance(access, RedisAccess) else access
        factory = redis_address.connection_factory(url, client, read_timeout_s, namespace)
        return RedisSource(factory, redis_address.shown_address(url, factory))
    if access.secret_arn or access.ssm_parameter:
        from kiqbridge.config.credentials.aws_request import StoredAddress  # noqa: PLC0415 - few have one

        return StoredSource(
            StoredAddress(access),
            lambda url: redis_address.connection_factory(url, None, read_timeout_s, namespace),
        )
    if access.iam_user:
        from kiqbridge.config.credentials import iam_token  # noqa: PLC0415 - as above

        tokens = iam_token.IamTokens(access)
        return iam_source(access, tokens, read_timeout_s, iam_token.MAX_AGE_S, namespace)
    return open_source(access.url, None, read_timeout_s, namespace)


def iam_source(
    access: RedisAccess,
    tokens: "IamTokens",
    read_timeout_s: float,
    max_age_s: float,
    namespace: str = "",
) -> RedisSource:
    """A source whose connections log in with a new token each, and are replaced at that age."""
    factory = redis_address.connection_factory(access.url, None, read_timeout_s, namespace)
    factory.connection_kwargs["credential_provider"] = tokens
    return RedisSource(
        factory, redis_address.shown_address(access.url, factory), max_age_s=max_age_s
    )
