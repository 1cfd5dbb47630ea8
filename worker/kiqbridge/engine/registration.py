"""Registering a worker process, however long Redis is away.

A server that cannot be reached is tried again with growing pauses. A server that waiting does not make
usable (a wrong address or password, a version that is too old) ends the start with the reason.
"""

import logging
import random
import threading
from collections.abc import Callable

from kiqbridge.errors import ConfigError, KiqbridgeError, RedisMisconfigured, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.server_check import check_server
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 5.0

SMALL_FLEET = 50
"""Processes; as many or fewer start at once."""

STARTS_A_SECOND = 100.0
"""How many processes of a larger fleet start in each second, if all of them are replaced at once."""

LONGEST_SPREAD_S = 10.0


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
            check_server(pool.run, keys.prefix, pool.address, follows_slots=pool.follows_slots)
            register()
        except RedisUnavailable as error:
            if isinstance(error, RedisMisconfigured):
                raise ConfigError(str(error)) from error
            if (fault := pool.probe(error)) is not None:
                raise ConfigError(f"Redis at {pool.address} cannot be reached: {fault}") from error
            logger.error("%s; trying again in %.1f s", error, pause_s)  # noqa: TRY400 - one line
            stopping.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_RETRY_S)
        else:
            return True
    return False


def spread_start(
    pool: RedisPool, keys: Keys, stopping: threading.Event, *, drawn: float | None = None
) -> float:
    """After registering: wait for a time that is drawn at random, in a large fleet alone.

    A deploy starts all processes of a fleet within a second. Each sends some fifty commands until it is ready, which
    together would hold up those that still work.

    Args:
        pool: how Redis is reached.
        keys: the namespace.
        stopping: ends the wait.
        drawn: between 0 and 1; None: drawn here.

    Returns:
        For how many seconds it has waited, at most.
    """
    try:
        processes = int(pool.call("SCARD", keys.inflight))
    except KiqbridgeError as error:
        logger.debug("the start is not spread, the size of the fleet is not known: %s", error)
        return 0.0
    if processes <= SMALL_FLEET:
        return 0.0
    share = random.random() if drawn is None else drawn  # noqa: S311 - spreads load
    pause_s = share * min(processes / STARTS_A_SECOND, LONGEST_SPREAD_S)
    logger.info(
        "%d processes are registered: this one continues in %.1f s, so that not all start at once",
        processes,
        pause_s,
    )
    stopping.wait(pause_s)
    return pause_s
