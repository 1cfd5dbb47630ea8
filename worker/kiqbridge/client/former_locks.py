"""Locks of unique jobs on the shards that held their queue before it was moved (docs/shards.md).

A lock goes along with its job, when that is moved. Until then, and while it runs where it was, the lock is there.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kiqbridge.client.job_writer import JobWriter, Placed
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

_REPLACE: Final = scripts.load("move_replace")


class FormerLock(NamedTuple):
    """A lock on another shard.

    Attributes:
        pool: connections to that one.
        jid: of the job that owns it.
        until: when it is over, epoch seconds.
    """

    pool: RedisPool
    jid: str
    until: int


def find_former_locks(
    jobs: Sequence[PreparedJob], keys: Keys, placed: Placed, now: float
) -> dict[str, FormerLock]:
    """The jid of a job that is to be pushed → the lock of its name that another job owns elsewhere.

    Raises:
        RedisUnavailable: nothing was read.
    """
    found: dict[str, FormerLock] = {}
    for pool, queues in placed.former:
        asked = [job for job in jobs if job.queue in queues]
        values = pool.run(*(("HGET", keys.locks, job.name) for job in asked))
        for job, value in zip(asked, values, strict=True):
            until, _, jid = text_of(value or b"").partition(" ")
            if jid and jid != job.jid and float(until) > now:
                found.setdefault(job.jid, FormerLock(pool, jid, int(until)))
    return found


def replace_former(lock: FormerLock, name: str, writer: JobWriter) -> None:
    """Note that the owner of a lock is replaced by a job that was pushed here.

    Here first, as it may be moved at this moment.

    Raises:
        RedisUnavailable: it may not be noted, and both run.
    """
    keys = writer.keys
    writer.pool.call("ZADD", keys.replaced, lock.until, lock.jid)
    names = [keys.locks, keys.locks_look, keys.replaced]
    lock.pool.script(_REPLACE, names, [name, lock.jid, lock.until])
