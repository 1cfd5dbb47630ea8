"""What makes connections to an address of several nodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redis.connection import Connection, SSLConnection

from kiqbridge.features.cluster.calls import Attempts
from kiqbridge.features.cluster.nodes import (
    ClusterNodes,
    OwnerConnection,
    OwnerSSLConnection,
    Place,
    SeveralNodes,
    answer,
    opened,
    parse,
)
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.redis_address import Factory, UntaggedNamespace, without_password
from kiqbridge.store.round_trip import Command
from kiqbridge.wire.keys import Keys, hash_tag

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection


class Sentinels:
    """Asks the sentinels of one service, the one first that answered last time."""

    def __init__(self, address: SeveralNodes) -> None:
        self._address = address
        self._hosts = address.hosts

    def __repr__(self) -> str:
        return f"Sentinels({self._address.service}, {len(self._hosts)})"

    def find_primary(self) -> tuple[str, int]:
        """Where the primary is now.

        Raises:
            redis.exceptions.ConnectionError: none of them knows.
        """
        failures = []
        for host in self._hosts:
            try:
                found = self._ask(host)
            except (redis.exceptions.RedisError, OSError) as error:
                failures.append(f"{host[0]}:{host[1]}: {error}")
                continue
            if found is None:
                failures.append(f"{host[0]}:{host[1]}: does not know it")
                continue
            self._hosts = (host, *(other for other in self._hosts if other != host))
            return found[0].decode(), int(found[1])
        raise redis.exceptions.ConnectionError(
            f"no sentinel says where the primary of {self._address.service} is ({'; '.join(failures)})"
        )

    def _ask(self, host: Place) -> list[bytes] | None:
        made = opened(host, self._address.sentinel_options, tls=self._address.tls)
        try:
            found: list[bytes] | None = answer(
                made, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service
            )
        finally:
            made.disconnect()  # type: ignore[no-untyped-call]
        return found


class _OfPrimary(Connection):
    """A connection whose place is found when it is opened."""

    def __init__(self, *, find_primary: Callable[[], tuple[str, int]], **options: Any) -> None:
        self._find_primary = find_primary
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self.host, self.port = self._find_primary()
        return super()._connect()  # type: ignore[no-untyped-call]

    def on_connect_check_health(self, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        """Ask for the role besides the greeting: a sentinel may still name a primary that was demoted."""
        super().on_connect_check_health(check_health=check_health)
        self.send_command("ROLE", check_health=False)  # type: ignore[no-untyped-call]
        try:
            role = self.read_response()[0]
        except (
            redis.exceptions.ResponseError
        ):  # its user may not ask; writes are refused by a replica
            return
        if role != b"master":
            raise redis.exceptions.ConnectionError(
                f"{self.host}:{self.port} is a replica now, and its sentinels do not know it yet"
            )


class PrimaryConnection(_OfPrimary):
    """A connection to the primary."""


class PrimarySSLConnection(_OfPrimary, SSLConnection):
    """An encrypted one."""


class Cluster(ClusterNodes):
    """The nodes, and what is done when one of them refuses."""

    def until_done(
        self,
        connection: "RedisConnection",
        commands: Sequence[Command],
        count: int,
        first: list[Any] | None,
        *,
        repeatable: bool,
    ) -> list[Any]:
        """The replies of a call that was lost or refused in part, of which `first` holds those that came."""
        return Attempts(connection, commands, count, repeatable=repeatable).until_done(first)


def connection_pool(url: str, namespace: str, options: Mapping[str, Any]) -> Factory:
    """What makes connections; `options` of redis-py win over those of the address.

    Raises:
        ValueError: the address is none.
        UntaggedNamespace: it is one of a cluster, and the prefix of all our keys has no hash tag.
    """
    address = parse(url)
    options = {**address.options, **options}
    if address.service:
        return Factory(
            PrimarySSLConnection if address.tls else PrimaryConnection,
            {"find_primary": Sentinels(address).find_primary, **options},
        )
    prefix = Keys(namespace).prefix
    if not hash_tag(prefix):
        raise UntaggedNamespace(
            f"REDIS_URL: {without_password(url)!r} is the address of a cluster, and the namespace {namespace!r} "
            "does not keep all keys in one slot of it: set KIQBRIDGE_NAMESPACE to a name in braces, such as "
            "{jobs}, for clients and workers alike"
        )
    return Factory(
        OwnerSSLConnection if address.tls else OwnerConnection,
        {"nodes": Cluster(address, prefix), **options},
    )
