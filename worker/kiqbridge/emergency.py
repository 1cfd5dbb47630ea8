"""The end of a worker process that cannot go on in order: all its jobs go back, and it ends at once."""

import logging
import os
from typing import NoReturn

from kiqbridge.errors import KiqbridgeError
from kiqbridge.job_logger import flush_logging
from kiqbridge.keys import Keys
from kiqbridge.liveness import EX_STUCK
from kiqbridge.reaping import ALIVE, Outcome, Reaping
from kiqbridge.redis_connection import RedisConnection, RedisPool

logger = logging.getLogger(__name__)

_TRIES = 3
"""The supervisor may renew the sign of life in between."""


def end_without_descriptors(
    redis_url: str, keys: Keys, *, identity: str, incarnation: str
) -> NoReturn:
    """Give back what the process holds, over a new connection, and end it; see descriptors.py.

    Args:
        redis_url: where.
        keys: the namespace.
        identity: of the process.
        incarnation: its lease.
    """
    try:
        logger.critical(
            "a job has closed file descriptors that were not its own (os.close, os.closerange): what this "
            "process sends may reach a stranger, so it gives its jobs back and ends with status %d; close "
            "only what you have opened, or declare the job with pool='process'",
            EX_STUCK,
        )
        connection = RedisPool(redis_url).connection()
        outcome = _reap(connection, keys, incarnation)
        connection.run(
            ("SREM", keys.processes, identity),
            ("UNLINK", keys.process(identity), keys.work(identity), keys.workers(identity)),
        )
        logger.info("%d jobs went back to their queues", outcome.returned + outcome.suspected)
    except KiqbridgeError as error:
        logger.warning("another process gives back what this one holds: %s", error)
    except BaseException:
        logger.exception("another process gives back what this one holds")
    finally:
        try:
            flush_logging()
        finally:
            os._exit(EX_STUCK)


def _reap(connection: RedisConnection, keys: Keys, incarnation: str) -> Outcome:
    """As after a crash: what it held is counted, so that a job which does this each time is found."""
    for _ in range(_TRIES):
        beat = connection.call("HGET", keys.alive, incarnation)
        outcome = Reaping(connection, keys).reap(incarnation, beat)
        if outcome.code != ALIVE:
            break
    return outcome
