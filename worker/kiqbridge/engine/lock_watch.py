"""The leader's look after locks of unique jobs: those whose job is gone are freed.

A lock is normally freed by the end of its job (kiqbridge.outbox). It stays when nobody writes that end: Ruby performed
the job, somebody deleted it by other means, or its key. So:

1. Once a minute the locks that are due for a look are read, ten minutes after they were taken. Without any,
   that is all: one command.
2. Their jobs are sought where jobs are: schedule, retry, queues, suspects, in-flight lists, and what processes say
   that they run. In the direction in which jobs move, and in small parts, a bounded number a second.
3. A job that was found has its lock looked at an hour later. A lock is freed when its job was found in none
   of three such searches, each begun a minute after the one before: a job may move while it is sought.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from kiqbridge.engine.schedule_leader import ScheduleStep
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime import threads
from kiqbridge.store.locks import Lock, find_due_locks, looked_at, scan_locked
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Seconds from one turn to the next, while a search is going on."""

SEARCH_S: Final = 60.0
"""Seconds from the end of a search to the next one."""

AGAIN_S: Final = 3600.0
"""Seconds until a lock is looked at again whose job was found."""

MISSES: Final = 3
"""Searches that must not have found a job before its lock is freed."""

MOST: Final = 500
"""Locks that one search is about."""

PARTS_PER_TURN: Final = 40
PART: Final = 250
"""Jobs that one command reads: some tenths of a millisecond of the server's time."""

OVERLAP: Final = 10
"""Jobs read twice, from one part to the next: what is taken out of the middle moves the others."""


class LockWatch:
    """Looks after locks while this process leads.

    Args:
        keys: the namespace.
        monotonic: seconds, for the intervals.
        misses: see `MISSES`.

    Attributes:
        freed: how many locks this process has freed.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        misses: int = MISSES,
    ) -> None:
        self.freed = 0
        self._keys = keys
        self._monotonic = monotonic
        self._misses = misses
        self._search_at = 0.0
        self._missed: dict[Lock, int] = {}
        self._search: Iterator[set[str]] | None = None
        self._found: set[str] = set()

    def __repr__(self) -> str:
        return f"LockWatch({self.freed} freed)"

    @property
    def step(self) -> ScheduleStep:
        """For the leader."""
        return ScheduleStep("locks of unique jobs", EVERY_S, self.look)

    def look(self, connection: RedisConnection) -> None:
        """Do a part of the search that is going on, or begin one if it is time.

        Raises:
            RedisUnavailable, RedisRefused: the search begins anew by a later call.
        """
        if self._search is None:
            if self._monotonic() < self._search_at:
                return
            self._begin(connection)
        try:
            self._go_on(connection)
        except KiqbridgeError:
            self._end()
            raise

    def _begin(self, connection: RedisConnection) -> None:
        due = find_due_locks(connection, self._keys, most=MOST)
        self._missed = {lock: self._missed.get(lock, 0) for lock in due}
        self._found = set()
        self._search = self._places(connection) if due else iter(())

    def _go_on(self, connection: RedisConnection) -> None:
        search = self._search
        assert search is not None  # noqa: S101 - `look` has begun it
        for _ in range(PARTS_PER_TURN):
            threads.beat()
            jids = next(search, None)
            if jids is None:
                self._conclude(connection)
                self._end()
                return
            self._found |= jids

    def _conclude(self, connection: RedisConnection) -> None:
        if not self._missed:
            return
        kept = [lock for lock in self._missed if lock.jid in self._found]
        missed = {lock: n + 1 for lock, n in self._missed.items() if lock.jid not in self._found}
        gone = [lock for lock, times in missed.items() if times >= self._misses]
        if kept or gone:
            freed = looked_at(connection, self._keys, kept=kept, gone=gone, again_s=AGAIN_S)
            self.freed += freed
            if freed:
                logger.warning(
                    "%d locks of unique jobs are freed: their jobs are gone, and nobody has noted their end, "
                    "such as %s of job %s",
                    freed,
                    gone[0].name,
                    gone[0].jid,
                )
        self._missed = {lock: times for lock, times in missed.items() if times < self._misses}

    def _end(self) -> None:
        self._search = None
        self._search_at = self._monotonic() + SEARCH_S

    def _places(self, connection: RedisConnection) -> Iterator[set[str]]:
        """The jids of jobs with a lock in each part of each place; of processes those of the locks sought."""
        keys = self._keys
        yield from _parts(connection, keys.schedule)
        yield from _parts(connection, keys.retry)
        queues = [text_of(name) for name in connection.call("SMEMBERS", keys.queues)]
        for name in queues:
            yield from _parts(connection, keys.queue(name))
            yield from _parts(connection, keys.suspects(name))
            yield from _parts(connection, keys.moving_batch(name))
        yield from _parts(connection, keys.exporting)
        for incarnation in map(text_of, connection.call("SMEMBERS", keys.inflight)):
            claims = pairs_of(connection.call("HGETALL", keys.claims(incarnation)))
            for tid in map(text_of, claims):
                for number in (0, 1):
                    yield from _parts(connection, keys.inflight_list(incarnation, tid, number))
        wanted = [(lock.jid, lock.jid.encode()) for lock in self._missed]
        for identity in map(text_of, connection.call("SMEMBERS", keys.processes)):
            running = pairs_of(connection.call("HGETALL", keys.work(identity))).values()
            yield {jid for jid, needle in wanted if any(needle in text for text in running)}
        # Once more, for those that have failed while the rest was read.
        yield from _parts(connection, keys.retry)


def _parts(connection: RedisConnection, key: str) -> Iterator[set[str]]:
    start = 0
    while True:
        members, jids = scan_locked(connection, key, start, PART)
        yield jids
        if members < PART:
            return
        start += PART - OVERLAP
