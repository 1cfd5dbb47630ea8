"""Where each thread of this process is: in the log, and for the page where those that run jobs are."""

import logging
import time
from collections.abc import Mapping
from typing import Final

from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime import frames
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text

logger = logging.getLogger(__name__)

KEPT_S: Final = 600
_MOST: Final = 8_000
"""Characters of a stack that are kept, the innermost calls."""
_CALLS_JOB: Final = 'engine/perform/invocation.py", line '
_FRAME: Final = "\n  File "


def dump_threads(
    pool: RedisPool, key: str, running: Mapping[str, RunningJob], elsewhere: Mapping[str, str]
) -> None:
    """Log where each thread is, and keep the stacks of those that run jobs for ten minutes.

    Args:
        pool: where to write; what it refuses is logged.
        key: of the hash: id of a thread → since when its job runs, time and stack.
        running: the running jobs by the ids of their threads.
        elsewhere: where jobs are that run on no thread of this process alone, by the same ids.
    """
    found: dict[str, str] = {}
    for ident, name, stack in frames.stacks():
        logger.warning("thread %s %s\n%s", ident, name, stack)
        found[name.removeprefix("kiqbridge-")] = _of_job(stack)
    for tid, stack in elsewhere.items():
        logger.warning("for thread %s: %s", tid, stack)
        found[tid] = stack
    kept: list[str | bytes] = []
    for tid in running.keys() & found.keys():
        record = {"run_at": running[tid].run_at, "at": time.time(), "stack": found[tid][-_MOST:]}
        kept += [tid, json_text.dumps(record)]
    if not kept:
        return
    try:
        pool.run(("DEL", key), ("HSET", key, *kept), ("EXPIRE", key, KEPT_S))
    except KiqbridgeError as error:
        logger.warning("the stacks of the threads that run jobs are in the log only: %s", error)


def _of_job(stack: str) -> str:
    """The calls of the job alone, without those of the worker that lead to it; all, if it calls nothing."""
    _, _, rest = stack.rpartition(_CALLS_JOB)
    _, frame, calls = rest.partition(_FRAME)
    return f"{frame[1:]}{calls}" or stack
