"""What makes connections to an address of several nodes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiqbridge.features.cluster.address import parse
from kiqbridge.features.cluster.calls import Attempts
from kiqbridge.features.cluster.nodes import ClusterNodes, OwnerConnection, OwnerSSLConnection
from kiqbridge.features.cluster.sentinels import PrimaryConnection, PrimarySSLConnection, Sentinels
from kiqbridge.store.redis_address import Factory, UntaggedNamespace, without_password
from kiqbridge.store.round_trip import Command
from kiqbridge.wire.keys import Keys, hash_tag

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection


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
