"""The immediate end of a worker process whose descriptors were closed: its jobs go back to their queues."""

import logging
import os
from typing import NoReturn

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.inflight.reaping import ALIVE, Outcome, Reaping
from kiqbridge.engine.liveness import EX_STUCK
from kiqbridge.engine.perform.job_logger import flush_logging
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.process_set import sign_off
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

_TRIES = 3
"""The supervisor may renew the sign of life in between."""


def end_without_descriptors(
    access: RedisAccess, keys: Keys, *, identity: str, incarnation: str
) -> NoReturn:
    """Give back what the process holds, over a new connection, and end it; see descriptors.py.

    Args:
        access: where, and how to log in.
        keys: the namespace.
        identity: of the process.
        incarnation: its lease.
    """
    try:
        logger.critical(
            "a job has closed file descriptors that were not its own (os.close, os.closerange): what this "
            "process sends may reach another connection, so it gives its jobs back and ends with status %d; close "
            "only what you have opened, or declare the job with pool='process'",
            EX_STUCK,
        )
        connection = RedisPool(access).connection()
        outcome = _reap(connection, keys, incarnation)
        sign_off(connection, keys, identity, with_hash=True)
        logger.info("%d jobs went back to their queues", outcome.returned + outcome.suspected)
    except KiqbridgeError as error:
        logger.warning("another process gives its jobs back: %s", error)
    except BaseException:
        logger.exception("another process gives its jobs back")
    finally:
        try:
            flush_logging()
        finally:
            os._exit(EX_STUCK)


def _reap(connection: RedisConnection, keys: Keys, incarnation: str) -> Outcome:
    """As after a crash: each job counts as found orphaned, so that one which does this each time is found."""
    for _ in range(_TRIES):
        beat = connection.call("HGET", keys.alive, incarnation)
        outcome = Reaping(connection, keys).reap(incarnation, beat)
        if outcome.code != ALIVE:
            break
    return outcome
