"""Acknowledging jobs one by one, a few milliseconds' worth in one go, off the threads that run them.

For jobs that run many at once on an event loop: waiting for the chunk's last would keep hundreds of
finished ones unacknowledged. The handlers of failed jobs are called by another thread (notifications.py),
after what became of the job is written: a handler that takes long holds up no acknowledgement.
"""

import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.inflight.outage import Outage, retry_until_written
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.notifications import Notification, Notifications
from kiqbridge.engine.settle.settling import Settler, acknowledge, first_batch
from kiqbridge.errors import Shutdown
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.batches import count_by_bytes
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from kiqbridge.engine.inflight.lease import Lease

logger = logging.getLogger(__name__)

GATHER_S = 0.005
BATCH = 1000
"""Jobs in one script."""

RETURN_S = 1.0
"""How long a job waits that is given back because something here went wrong."""


class Outcome(Enum):
    """What became of a write."""

    WRITTEN = auto()
    LEFT = auto()
    """Not written, and not tried again; its jobs are given back."""
    STOPPED = auto()
    """Not written: the process stops while Redis is away."""


class Bookkeeper(Role):
    """The thread that acknowledges and settles what has ended elsewhere than on the thread that claimed."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        settler: Settler,
        outage: Outage,
        notifications: Notifications,
    ) -> None:
        super().__init__("bookkeeper", self._keep_books, until=Until.JOBS)
        self._connection = connection
        self._keys = keys
        self._settler = settler
        self._outage = outage
        self._notifications = notifications
        self._ended: deque[tuple[Chunk, bytes, Settlement | None]] = deque()
        self._returning: deque[tuple[float, Chunk, bytes, Notification | None]] = deque()

    def ended(self, chunk: Chunk, text: bytes, settlement: Settlement | None) -> None:
        """A job of a chunk has ended; None: it succeeded."""
        self._ended.append((chunk, text, settlement))
        if not self._some.is_set():
            self._some.set()

    def give_back(self, chunk: Chunk, text: bytes, notify: Notification | None = None) -> None:
        """A job cannot go on here: put it back to its queue, and then call `notify`.

        After a second, since it may come back to this process at once, and fail here again.
        """
        self._returning.append((time.monotonic() + RETURN_S, chunk, text, notify))
        self._some.set()

    def _keep_books(self) -> None:
        while True:
            threads.rest()
            self._some.wait(self._until_return())
            threads.beat()
            self._stopping.wait(GATHER_S)
            self._some.clear()
            if not (self._write_all() and self._return_all()):
                return
            if self._stopping.is_set() and not self._ended:
                return

    def _write_all(self) -> bool:
        """Write until nothing is left; False: the process stops while Redis is away."""
        while self._ended:
            threads.beat()
            batch = [self._ended.popleft() for _ in range(min(len(self._ended), BATCH))]
            done: dict[Lease, list[tuple[Chunk, bytes]]] = {}
            settled: dict[int, tuple[Chunk, list[tuple[bytes, Settlement]]]] = {}
            for chunk, text, settlement in batch:
                if settlement is None:
                    done.setdefault(chunk.lease, []).append((chunk, text))
                elif self._settler.may_wait(chunk, settlement):
                    settled.setdefault(id(chunk), (chunk, []))[1].append((text, settlement))
                elif not self._settle(chunk, text, settlement):
                    return False
            for chunk, ended in settled.values():
                if not self._settle_together(chunk, ended):
                    return False
            for jobs in done.values():
                if not self._acknowledge(jobs):
                    return False
        return True

    def _return_all(self) -> bool:
        """Give back what has waited long enough; False as in `_write_all`."""
        while self._returning and (self._until_return() == 0 or self._stopping.is_set()):
            _, chunk, text, notify = self._returning.popleft()
            chunk.put_back([text])
            outcome = self._until_written([], functools.partial(self._give_back, chunk))
            if outcome is Outcome.STOPPED:
                return False
            self._notifications.add([notify] if notify else [])
            if outcome is Outcome.WRITTEN:
                chunk.release()
        return True

    def _give_back(self, chunk: Chunk) -> None:
        with chunk.writing:
            give_back(self._connection, self._keys, chunk)

    def _until_return(self) -> float | None:
        """Seconds until the next job is to be given back; None: there is none."""
        return max(self._returning[0][0] - time.monotonic(), 0) if self._returning else None

    def _settle(self, chunk: Chunk, text: bytes, settlement: Settlement) -> bool:
        is_ours = False

        def write() -> None:
            nonlocal is_ours
            is_ours = self._settler.write(self._connection, chunk, text, settlement)

        outcome = self._until_written([(chunk, text)], write)
        if outcome is not Outcome.WRITTEN:
            return outcome is not Outcome.STOPPED
        if is_ours and settlement.notify is not None:
            self._notifications.add([settlement.notify])
        if settlement.leaves_with_chunk:
            return self._acknowledge([(chunk, text)])
        chunk.gone(text)
        return True

    def _settle_together(self, chunk: Chunk, jobs: Sequence[tuple[bytes, Settlement]]) -> bool:
        """Settle jobs of one chunk, which acknowledges them."""
        while jobs:
            written: list[tuple[bytes, Settlement]] = []
            notifications: list[Notification] = []
            outcome = self._until_written(
                [(chunk, text) for text, _ in jobs],
                functools.partial(self._write_together, chunk, jobs, written, notifications),
            )
            if outcome is not Outcome.WRITTEN:
                return outcome is not Outcome.STOPPED
            self._notifications.add(notifications)
            chunk.gone(*(text for text, _ in written))
            jobs = jobs[len(written) :]
        return True

    def _acknowledge(self, jobs: list[tuple[Chunk, bytes]]) -> bool:
        """Acknowledge jobs of one lease."""
        while jobs:
            written: list[tuple[Chunk, bytes]] = []
            outcome = self._until_written(jobs, functools.partial(self._write_done, jobs, written))
            if outcome is not Outcome.WRITTEN:
                return outcome is not Outcome.STOPPED
            for chunk, text in written:
                chunk.gone(text)
            jobs = jobs[len(written) :]
        return True

    def _write_together(
        self,
        chunk: Chunk,
        jobs: Sequence[tuple[bytes, Settlement]],
        written: list[tuple[bytes, Settlement]],
        notifications: list[Notification],
    ) -> None:
        # Anew each time: what did not get through is divided.
        written[:] = first_batch(jobs, self._connection.batch_bytes)
        notifications[:] = self._settler.write_together(self._connection, chunk, written)

    def _write_done(
        self, jobs: list[tuple[Chunk, bytes]], written: list[tuple[Chunk, bytes]]
    ) -> None:
        sizes = [len(text) for _, text in jobs]
        written[:] = jobs[: count_by_bytes(sizes, self._connection.batch_bytes)]
        acknowledge(self._connection, self._keys, written)

    def _until_written(
        self, jobs: Sequence[tuple[Chunk, bytes]], write: Callable[[], object]
    ) -> "Outcome":
        """Repeat a write until Redis has confirmed it. An unexpected error concerns these jobs alone."""
        try:
            retry_until_written(write, outage=self._outage, wait=self._stopping.wait)
        except Shutdown:
            return Outcome.STOPPED
        except BaseException as error:  # noqa: BLE001 - nothing may end this thread
            user_code.log_error(
                logger,
                error,
                "what became of %d jobs could not be written; they %s",
                max(len(jobs), 1),
                "are given back" if jobs else "stay in flight until this process ends",
            )
            for chunk, text in jobs:
                self.give_back(chunk, text)
            return Outcome.LEFT
        return Outcome.WRITTEN
