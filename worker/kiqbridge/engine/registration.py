"""Registering a worker process, however long Redis is away.

A server that cannot be reached is tried again with growing pauses. A server that waiting does not make
usable (a wrong address or password, a version that is too old) ends the start with the reason.
"""

import logging
import threading
from collections.abc import Callable

from kiqbridge.errors import ConfigError, RedisMisconfigured, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.server_check import check_server
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 5.0


def register_patiently(
    pool: RedisPool, keys: Keys, register: Callable[[], None], stopping: threading.Event
) -> bool:
    """Check the server and register, again and again until Redis has done it; False: the process stops.

    Args:
        pool: how Redis is reached.
        keys: the namespace.
        register: takes out the lease.
        stopping: ends the attempts.

    Raises:
        ConfigError: the server cannot be used, and waiting does not change that.
    """
    pause_s = FIRST_RETRY_S
    while not stopping.is_set():
        try:
            check_server(pool.run, keys.prefix, pool.address)
            register()
        except RedisUnavailable as error:
            _raise_if_permanent(pool, error)
            logger.error("%s; trying again in %.1f s", error, pause_s)  # noqa: TRY400 - one line
            stopping.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_RETRY_S)
        else:
            return True
    return False


def _raise_if_permanent(pool: RedisPool, error: RedisUnavailable) -> None:
    if isinstance(error, RedisMisconfigured):
        raise ConfigError(str(error)) from error
    if (fault := pool.probe(error)) is not None:
        raise ConfigError(f"Redis at {pool.address} cannot be reached: {fault}") from error
