"""The servers of one application: a pool for each shard, and which of them holds a queue.

A queue may have been moved (`kiqbridge queue move`): the shard that held it then has an entry in `kb:routes`, the
name of the queue → that of the shard where it lies now, and that one an entry in `kb:routes:from` (wire/routes.py). Who
pushes reads both again every few seconds; what was pushed to the old place meanwhile is served there, or moved after.
A push that must not be doubled says what it knows of them, and is refused if that is not true any more.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from redis.exceptions import RedisError

from kiqbridge.config.client_settings import SHARDS
from kiqbridge.config.redis_access import access_of, read_access
from kiqbridge.config.setting import read
from kiqbridge.config.shards import ShardSettings
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.redis_pool import POOL_SIZE, RedisPool, has_stand_in
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.routes import Route, Routes, former_of

logger = logging.getLogger(__name__)

REREAD_S: Final = 5.0
"""How long the moves that a shard has noted are trusted."""
READ_WITHIN_S: Final = 0.5
"""For reading them: a push must not wait twice for a server that does not answer."""


class Moves(NamedTuple):
    """What a shard has noted about moves: queue → entry.

    Attributes:
        routes: those that were moved away.
        former: those that came from elsewhere.
    """

    routes: Mapping[str, bytes]
    former: Mapping[str, bytes]

    def of(self, queue: str) -> "Moves":
        """What concerns one queue."""
        return Moves(
            *({queue: each[queue]} if queue in each else {} for each in (self.routes, self.former))
        )


_NONE: Final = Moves({}, {})


class ShardPools:
    """Connections to each shard.

    Args:
        pools: name of a shard → its connections, in the order of the settings.
        routes: which queues lie where.

    Attributes:
        home: the first shard; holds what belongs to no queue.
    """

    def __init__(self, pools: Mapping[str, RedisPool], routes: Routes) -> None:
        self._pools = dict(pools)
        self._routes = routes
        self._moves: dict[str, tuple[float, Moves]] = {}
        self.home = next(iter(self._pools))

    def __repr__(self) -> str:
        return f"ShardPools({', '.join(f'{name}: {pool.address}' for name, pool in self._pools.items())})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the shards, in the order of the settings."""
        return tuple(self._pools)

    @property
    def routes(self) -> Routes:
        """The globs of the settings."""
        return self._routes

    def pool(self, name: str) -> RedisPool:
        """Connections to a shard.

        Raises:
            KeyError: there is no such shard.
        """
        return self._pools[name]

    def shard_of(self, queue: str, keys: Keys) -> str:
        """Name of the shard on which a queue lies now.

        Raises:
            PayloadError: on none.
        """
        name, last = self._routes.shard_of(queue), 0
        while True:
            entry = self._moves_of(name, keys).routes.get(queue)
            if entry is None:
                return name
            route = Route.from_text(entry)
            if route.number <= last or route.shard not in self._pools:
                return name
            name, last = route

    def lies_on(self, name: str, queue: str, keys: Keys) -> "Moves | None":
        """What is known of a queue on the shard on which it lies; None: it lies on another one by now.

        Raises:
            PayloadError: on none.
        """
        # Before and after it: another thread may read anew meanwhile, and a decision belongs to what it was made of.
        before = self._moves_of(name, keys).of(queue)
        is_here = self.shard_of(queue, keys) == name
        return before if is_here and self._moves_of(name, keys).of(queue) == before else None

    def holders(self, queue: str, keys: Keys, now: float) -> list[str]:
        """The shard on which a queue lies, and those that held it before and are asked for that at `now`.

        Raises:
            PayloadError: on none.
        """
        name = self.shard_of(queue, keys)
        former = former_of(self._moves_of(name, keys).former.get(queue, b""))
        return [
            name,
            *(each for each, until in former.items() if until > now and each in self._pools),
        ]

    def read_moves(self, keys: Keys) -> None:
        """Read anew which queues were moved, on each shard that answers."""
        for name in self._pools:
            self._read_moves(name, keys)

    def close(self) -> None:
        """Close the idle connections of each."""
        for pool in self._pools.values():
            pool.close()

    def _moves_of(self, name: str, keys: Keys) -> Moves:
        """What this shard has noted. As it was known, if the shard does not answer."""
        read_at, moves = self._moves.get(name, (-float("inf"), _NONE))
        if time.monotonic() - read_at < REREAD_S or has_stand_in():
            return moves
        return self._read_moves(name, keys)

    def _read_moves(self, name: str, keys: Keys) -> Moves:
        _, moves = self._moves.get(name, (0.0, _NONE))
        now = time.monotonic()
        # First, so that other threads go on with what is known instead of asking as well.
        self._moves[name] = now, moves
        connection = self._pools[name].connection(timeout_s=READ_WITHIN_S)
        try:
            commands = ("HGETALL", keys.routes), ("HGETALL", keys.routes_from)
            replies = connection.run(*commands, repeatable=False)
            moves = Moves(*(_by_queue(reply) for reply in replies))
            self._moves[name] = now, moves
        except (KiqbridgeError, RedisError, OSError) as error:
            logger.debug("which queues were moved from shard %s is not known: %s", name, error)
        finally:
            connection.close()
        return moves


def _by_queue(reply: Any) -> Mapping[str, bytes]:
    return {text_of(queue): entry for queue, entry in pairs_of(reply).items()}


def open_shards(
    settings: Sequence[ShardSettings],
    environ: Mapping[str, str],
    *,
    size: int = POOL_SIZE,
    made: Mapping[str, RedisPool] | None = None,
    namespace: str | None = None,
) -> ShardPools:
    """Pools for the shards of the settings; nothing is opened yet.

    Args:
        settings: at least one.
        environ: environment variables: providers, and what AWS needs.
        size: how many connections of each pool may be out at once.
        made: name of a shard → its pool, where there is one already.
        namespace: of all keys; None: what the environment says.

    Raises:
        ConfigError: an address is wrong.
    """
    own = made or {}
    pools = {
        each.name: own.get(each.name)
        or RedisPool(access_of(each, environ), size=size, shard=each.name, namespace=namespace)
        for each in settings
    }
    return ShardPools(pools, Routes({each.name: each.queues for each in settings}))


def open_pools(
    environ: Mapping[str, str], namespace: str | None = None
) -> "RedisPool | ShardPools":
    """What the environment names: the shards of KIQBRIDGE_SHARDS, or one Redis.

    Args:
        environ: environment variables.
        namespace: of all keys; None: what they say.

    Raises:
        ConfigError: a wrong value; names the variable.
    """
    settings: Sequence[ShardSettings] = read(SHARDS, environ)
    if settings:
        return open_shards(settings, environ, namespace=namespace)
    return RedisPool(read_access(environ), namespace=namespace)
