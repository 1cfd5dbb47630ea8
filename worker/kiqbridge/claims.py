"""Claiming jobs into a registered in-flight list, and every way for a claimed job to leave it.

A claimer is one processor thread with a connection of its own. It numbers its claims; claim number
s acknowledges chunk s-1. All effects on the in-flight lists go through here, one script each.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kiqbridge import scripts
from kiqbridge.keys import Keys
from kiqbridge.lease import Lease, LeaseKeeper
from kiqbridge.redis_connection import RedisConnection

_CLAIM = scripts.load("claim")
_SETTLE = scripts.load("settle")
_GIVE_BACK = scripts.load("give_back")

_FENCED = -1


@dataclass(slots=True, eq=False)
class Chunk:
    """Jobs of one claim that wait in this process, newest on the left; all are still in Redis.

    The owner takes from the right; others may take from the left, under `lock`.

    Attributes:
        leaving: taken out under `lock` to be given back, newest first, and not yet confirmed by
            Redis. They may be anybody's already, so nobody here begins them, and the chunk must not
            be acknowledged before they are confirmed.
    """

    lease: Lease
    queue: str
    list_key: str
    jobs: deque[bytes]
    size: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    leaving: list[bytes] = field(default_factory=list)


class Claimer:
    """The claims of one thread under the process' lease."""

    def __init__(
        self, tid: str, keeper: LeaseKeeper, connection: RedisConnection, keys: Keys
    ) -> None:
        self.tid = tid
        self._keeper = keeper
        self._connection = connection
        self._keys = keys
        self._sequence = 0
        self._lease = keeper.current

    def claim(self, queues: Sequence[str], most: int) -> Chunk | None:
        """Acknowledge the last chunk and take up to `most` jobs from the first queue that has any.

        Without queues it only acknowledges. None: there was nothing, or the lease was gone and a
        new one has been taken out.

        Raises:
            RedisUnavailable: call again; the claim is repeated under its number.
        """
        lease = self._keeper.current
        if lease is not self._lease:
            self._lease, self._sequence = lease, 0
        sequence = self._sequence + 1
        reply = self._ask(self._connection, lease, sequence, queues, most)
        if isinstance(reply, int):
            self._connection.close()
            self._keeper.renounce(lease, "fenced" if reply == _FENCED else "its claims are unknown")
            return None
        self._sequence = sequence
        if len(reply) == 1:
            return None
        jobs = deque(reply)
        return Chunk(
            lease=lease,
            queue=jobs.popleft().decode(),
            list_key=self._keys.inflight_list(lease.incarnation, self.tid, sequence),
            jobs=jobs,
            size=len(jobs),
        )

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """Acknowledge the last chunk from another thread, when this one begins nothing any more.

        Harmless beside a claim of the owner's: both bear the same number.

        Raises:
            RedisUnavailable: not acknowledged.
        """
        self._ask(connection, self._lease, self._sequence + 1, (), 0)

    def _ask(
        self,
        connection: RedisConnection,
        lease: Lease,
        sequence: int,
        queues: Sequence[str],
        most: int,
    ) -> Any:
        keys = self._keys
        return connection.script(
            _CLAIM,
            [
                keys.inflight,
                keys.claims(lease.incarnation),
                keys.inflight_list(lease.incarnation, self.tid, sequence),
                keys.inflight_list(lease.incarnation, self.tid, sequence + 1),
                keys.paused,
                *(keys.queue(name) for name in queues),
            ],
            [lease.incarnation, self.tid, sequence, most, *queues],
        )

    def settle(
        self, chunk: Chunk, job: bytes, target: str, score: float, text: bytes, *trim: float
    ) -> bool:
        """Move a claimed job into a sorted set and acknowledge it, in one step.

        `trim` is for the dead set, see settle.lua. False: it was not ours any more, nothing was
        done.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        outcome = self._connection.script(
            _SETTLE,
            [self._keys.inflight, chunk.list_key, target],
            [chunk.lease.incarnation, job, repr(score), text, *(str(bound) for bound in trim)],
        )
        return bool(outcome == 1)

    def give_back(self, chunk: Chunk, jobs: Sequence[bytes]) -> int:
        """See the function `give_back`."""
        return give_back(self._connection, self._keys, chunk, jobs)


def give_back(connection: RedisConnection, keys: Keys, chunk: Chunk, jobs: Sequence[bytes]) -> int:
    """Put claimed jobs back to the consuming end of their queue, newest first in `jobs`.

    Those whose giving back was not confirmed before go along. To be called under the chunk's lock.
    Returns how many were still ours; below 0 when the lease is gone.

    Raises:
        RedisUnavailable: repeat it without jobs: they wait in `leaving`; a second time does nothing.
    """
    chunk.leaving += jobs
    if not chunk.leaving:
        return 0
    moved = int(
        connection.script(
            _GIVE_BACK,
            [keys.inflight, chunk.list_key, keys.queue(chunk.queue)],
            [chunk.lease.incarnation, *chunk.leaving],
        )
    )
    chunk.leaving.clear()
    return moved
