"""The servers of one application: a pool for each shard, and which of them holds a queue.

A queue may have been moved (`kiqbridge queue move`): the shard that held it then has an entry in `kb:routes`, the
name of the queue → that of the shard where it lies now. Who pushes reads that again every few seconds; what was
pushed to the old place meanwhile is served there, or moved after.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from redis.exceptions import RedisError

from kiqbridge.config.client_settings import SHARDS
from kiqbridge.config.redis_access import access_of, read_access
from kiqbridge.config.setting import read
from kiqbridge.config.shards import ShardSettings
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.redis_pool import POOL_SIZE, RedisPool, has_stand_in
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.routes import Routes

logger = logging.getLogger(__name__)

REREAD_S: Final = 5.0
"""How long the moves that a shard has noted are trusted."""
READ_WITHIN_S: Final = 0.5
"""For reading them: a push must not wait twice for a server that does not answer."""
_MOST_MOVES: Final = 8
"""Of one queue, one after the other; more can only be a circle."""


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
        self._moves: dict[str, tuple[float, Mapping[str, str]]] = {}
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
        name = self._routes.shard_of(queue)
        for _ in range(_MOST_MOVES):
            other = self._moved_from(name, keys).get(queue)
            if other is None or other not in self._pools:
                return name
            name = other
        return name

    def forget_moves(self) -> None:
        """Read anew, at the next push, which queues were moved."""
        self._moves.clear()

    def close(self) -> None:
        """Close the idle connections of each."""
        for pool in self._pools.values():
            pool.close()

    def _moved_from(self, name: str, keys: Keys) -> Mapping[str, str]:
        """What this shard has noted: queue → shard. As it was known, if the shard does not answer."""
        read_at, moves = self._moves.get(name, (-float("inf"), {}))
        now = time.monotonic()
        if now - read_at < REREAD_S or has_stand_in():
            return moves
        # First, so that other threads go on with what is known instead of asking as well.
        self._moves[name] = now, moves
        connection = self._pools[name].connection(timeout_s=READ_WITHIN_S)
        try:
            reply = connection.run(("HGETALL", keys.routes), repeatable=False)[0]
            moves = {
                text_of(queue): text_of(shard)
                for queue, shard in zip(reply[::2], reply[1::2], strict=True)
            }
            self._moves[name] = now, moves
        except (KiqbridgeError, RedisError, OSError) as error:
            logger.debug("which queues were moved from shard %s is not known: %s", name, error)
        finally:
            connection.close()
        return moves


def open_shards(
    settings: Sequence[ShardSettings], environ: Mapping[str, str], *, size: int = POOL_SIZE
) -> ShardPools:
    """Pools for the shards of the settings; nothing is opened yet.

    Args:
        settings: at least one.
        environ: environment variables: providers, and what AWS needs.
        size: how many connections of each pool may be out at once.

    Raises:
        ConfigError: an address is wrong.
    """
    pools = {
        each.name: RedisPool(access_of(each, environ), size=size, shard=each.name)
        for each in settings
    }
    return ShardPools(pools, Routes({each.name: each.queues for each in settings}))


def open_pools(environ: Mapping[str, str]) -> "RedisPool | ShardPools":
    """What the environment names: the shards of KIQBRIDGE_SHARDS, or one Redis.

    Raises:
        ConfigError: a wrong value; names the variable.
    """
    settings: Sequence[ShardSettings] = read(SHARDS, environ)
    return open_shards(settings, environ) if settings else RedisPool(read_access(environ))
