"""Who takes jobs away that a thread holds in advance, when the one before them turns out long.

A round trip and a thread wake-up cost ten times the bookkeeping of a job, so short jobs are claimed
in chunks. The bound is enforced, not predicted: as soon as a job has run for 20 ms, the prefetch revoker
gives what waits behind it back to the queue, where any idle thread of the fleet finds it, and writes
what has ended before it in the same chunk. A C call that holds the interpreter lock defeats
the prefetch revoker.

Of few jobs each idle thread takes its share, for a minute after a job has waited for 5 ms behind another
one. Without that reason it would cost three times the CPU where all jobs are short.
"""

from typing import TYPE_CHECKING, Protocol

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.perform.fetch import SHORT_S
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import RedisRefused
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Sequence

WAITED_S = 0.005
"""If jobs are seen waiting behind one that runs for longer, idle threads share what comes."""

SHARE_FOR_S = 60.0
"""For how long they do."""

TICK_S = 0.020
RETRY_S = 0.5


class BusyProcessor(Protocol):
    """What the prefetch revoker sees of a processor."""

    chunk: Chunk | None
    began_at: float
    """On `lease_now`, when the running job began."""


class PrefetchRevoker(Role):
    """Gives back what waits behind a long job, and settles what ended before; awake while chunks are out."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        settler: Settler,
        notifications: Notifications,
    ) -> None:
        super().__init__(
            "revoker",
            self._watch,
            work="giving back jobs that wait behind a long one",
            until=Until.JOBS,
            join_s=0,
        )
        self._connection = connection
        self._keys = keys
        self._settler = settler
        self._notifications = notifications
        self.processors: Sequence[BusyProcessor] = ()
        self._shares_until = 0.0

    @property
    def shares(self) -> bool:
        """Whether a job has waited behind a long one lately: few jobs are shared among idle threads then."""
        return lease_now() < self._shares_until

    def watch(self) -> None:
        """Called by a processor that took more than one job."""
        if not self._some.is_set():
            self._some.set()

    def _watch(self) -> None:
        while True:
            threads.rest()
            self._some.wait()
            threads.beat()
            if self._stopping.wait(TICK_S):
                return
            self._some.clear()
            if not self.tried(self._look_at_all) and not self._stopping.wait(RETRY_S):
                self._some.set()

    def _look_at_all(self) -> None:
        if any([self._look_at(processor) for processor in self.processors]):  # noqa: C419 - at all of them
            self._some.set()

    def _look_at(self, processor: BusyProcessor) -> bool:
        """Revoke the waiting jobs if the running one is long; whether some still wait."""
        chunk = processor.chunk
        if chunk is None or not (chunk.has_waiting or chunk.has_ended or chunk.returning):
            return False
        now = lease_now()
        if chunk.has_waiting and now - processor.began_at > WAITED_S:
            self._shares_until = now + SHARE_FOR_S
        if chunk.returning or now - processor.began_at > SHORT_S:
            # The owner leaves the chunk only after these are confirmed: its next claim would delete the list.
            # Jobs whose reply was lost stay on their way back: they may be in the queue, so they must not be
            # begun here.
            with chunk.writing:
                chunk.revoke()
                try:
                    give_back(self._connection, self._keys, chunk)
                except RedisRefused:  # answered: nothing was moved, so they are ours to run
                    chunk.restore()
                    raise
            self._settle(chunk)
        return chunk.has_waiting or chunk.has_ended

    def _settle(self, chunk: Chunk) -> None:
        """Write what ended here: it must not wait for the long job's end."""
        if not chunk.has_ended:
            return
        with chunk.writing:
            notifications = self._settler.write_ended(self._connection, chunk)
        self._notifications.add(notifications)
