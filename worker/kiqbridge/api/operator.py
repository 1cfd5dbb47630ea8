"""Where an operator looks and acts: a Redis or several shards, a namespace, and in whose name."""

import getpass
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import KiqbridgeError, PayloadError, RedisUnavailable
from kiqbridge.store.pauses import Pause, list_pauses
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

API: Final = "api"
ANSWERS_WITHIN_S: Final = 1.0
"""A shard that takes longer to answer a PING is away."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What all classes of `kiqbridge.api` take as `operator=`; without it they use `default_operator`.

    Attributes:
        client: pushes what is retried or edited, through its middleware; its pool is used for all else.
        by: who acts, as the audit log shows it, such as `ann@example.com`.
        via: through what: `api`, `web`, `cli`.
        shard: of several shards the one on which alone it looks and acts; empty: on all, or there is one server.
        among: of several shards those on which it looks and acts; empty: all.
        missing: shards that were left out because they did not answer, and why (`reachable`).
    """

    client: Client
    by: str
    via: str = API
    shard: str = ""
    among: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def pool(self) -> RedisPool:
        """Its connections; of several shards those to the first."""
        return self.client.on(self.among[0]).pool if self.among else self.client.pool

    @property
    def keys(self) -> Keys:
        """The names of keys under the namespace."""
        return self.client.keys

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the shards on which it looks and acts; empty = there is one server, or it is that of one shard."""
        return self.among or self.client.shards

    def on(self, shard: str) -> "Operator":
        """The operator of one shard; raises PayloadError: there is none of that name."""
        return replace(self, client=self.client.on(shard), shard=shard, among=(), missing=())

    def each(self) -> "list[Operator]":
        """An operator for each shard; itself, if there is one server."""
        return [self.on(name) for name in self.shards] or [self]

    def gather(self, read: "Callable[[Operator], T]") -> list[T]:
        """What `read` answers for each shard, in their order; raises what it raises for the first that fails."""
        return [read(each) for each in self.each()]

    def limited_to(self, shards: tuple[str, ...]) -> "Operator":
        """An operator of these shards of several.

        Raises:
            PayloadError: there is no shard of such a name, or none was given.
        """
        unknown = [name for name in shards if name not in self.shards]
        if unknown or not shards:
            known = ", ".join(self.shards) or "none: KIQBRIDGE_SHARDS is not set"
            raise PayloadError(
                f"shard: {''.join(unknown[:1])!r:.100} is not one of the shards ({known})"
            )
        return self.on(shards[0]) if len(shards) == 1 else replace(self, among=shards)

    def reachable(self) -> "Operator":
        """The operator of those of its shards that answer; `missing` of it has the others.

        With one server, or of one shard, it is this operator, and nothing is asked.

        Raises:
            RedisUnavailable: none answers; says why.
        """
        names = self.shards
        if not names:
            return self
        with ThreadPoolExecutor(len(names)) as threads:
            faults = list(threads.map(lambda name: _fault(self.on(name)), names))
        missing = tuple((name, why) for name, why in zip(names, faults, strict=True) if why)
        left = tuple(name for name, why in zip(names, faults, strict=True) if not why)
        if not left:
            raise RedisUnavailable(
                "; ".join(f"shard {name} is away: {why}" for name, why in missing)
            )
        return replace(self, among=left, missing=missing)

    def pauses(self) -> list[Pause]:
        """What is paused now: queues, those that Ruby paused included, then classes, by name.

        Raises:
            RedisUnavailable: not everything was read.
        """
        listed = self.gather(lambda each: list_pauses(each.pool, each.keys))
        if len(listed) == 1:
            return listed[0]
        found = {(each.kind, each.name): each for several in listed for each in several}
        return sorted(found.values(), key=lambda each: (each.kind != "queue", each.name))


def open_operator(
    url: str | None = None,
    *,
    namespace: str | None = None,
    by: str | None = None,
    via: str = API,
    client: Client | None = None,
) -> Operator:
    """An operator of a Redis; without arguments of the one that the settings name.

    Args:
        url: address of Redis; default from KIQBRIDGE_SHARDS, or REDIS_PROVIDER or REDIS_URL,
            REDIS_SECRET_ARN and their like.
        namespace: key prefix, `myapp` or `myapp:`; default from KIQBRIDGE_NAMESPACE.
        by: who acts; default `USER@HOST` of this process.
        via: through what.
        client: an existing client instead of url and namespace.

    Raises:
        ConfigError: a wrong value; names the argument or the environment variable.
    """
    return Operator(
        client=client or Client(url, namespace=namespace), by=by or user_at_host(), via=via
    )


def _fault(operator: Operator) -> str:
    connection = operator.pool.connection(timeout_s=ANSWERS_WITHIN_S)
    try:
        connection.run(("PING",), repeatable=False)
    except KiqbridgeError as error:
        return str(error)
    finally:
        connection.close()
    return ""


_default: Operator | None = None
_default_lock = threading.Lock()


def default_operator() -> Operator:
    """The operator that is used without `operator=`: of the client that `configure` made, else of the settings.

    Raises:
        ConfigError: a wrong environment variable.
    """
    global _default  # noqa: PLW0603 - one for the process, as its default client is
    client = default_client()
    with _default_lock:
        if _default is None or _default.client is not client:
            _default = Operator(client=client, by=user_at_host())
        return _default


def user_at_host() -> str:
    """`USER@HOST`, for what others read."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user needs no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
