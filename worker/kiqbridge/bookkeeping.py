"""Acknowledging jobs one by one, a few milliseconds' worth in one go, off the threads that run them.

For jobs that run many at once on an event loop: waiting for the chunk's last would keep hundreds of
finished ones unacknowledged. The handlers of failed jobs are called by another thread (notifications.py),
after what became of the job is written: a handler that takes long holds up no acknowledgement.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kiqbridge import threads
from kiqbridge.batches import count_by_bytes
from kiqbridge.claims import Chunk, acknowledge
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.execution import Settlement
from kiqbridge.fetch import RETRY_S, Outage
from kiqbridge.keys import Keys
from kiqbridge.notifications import Notifications
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict
from kiqbridge.settling import Settler, first_batch
from kiqbridge.threads import keep_running

if TYPE_CHECKING:
    from kiqbridge.lease import Lease

logger = logging.getLogger(__name__)

GATHER_S = 0.005
MOST = 1000
"""Jobs in one script."""


class Bookkeeper:
    """The thread that acknowledges and settles what has ended elsewhere than on the thread that claimed."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        settler: Settler,
        outage: Outage,
        notifications: Notifications,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._settler = settler
        self._outage = outage
        self._notifications = notifications
        self._ended: deque[tuple[Chunk, bytes, Settlement | None]] = deque()
        self._some = threading.Event()
        self._stopping = threading.Event()
        self._thread = self._new_thread()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is left, as far as Redis allows within so many seconds; nothing comes after."""
        self._stopping.set()
        self._some.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def ended(self, chunk: Chunk, text: bytes, settlement: Settlement | None) -> None:
        """A job of a chunk has ended; None: it succeeded."""
        self._ended.append((chunk, text, settlement))
        if not self._some.is_set():
            self._some.set()

    def restart(self) -> None:
        """Start its thread anew, after that has ended though it should run."""
        self._thread = self._new_thread()
        self._thread.start()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="kiqbridge-bookkeeper", daemon=True)

    def _run(self) -> None:
        keep_running(
            "bookkeeper",
            self._keep_books,
            is_ending=self._stopping.is_set,
            wait=self._stopping.wait,
        )

    def _keep_books(self) -> None:
        while True:
            threads.rest()
            self._some.wait()
            threads.beat()
            self._stopping.wait(GATHER_S)
            self._some.clear()
            if not self._write_all() or (self._stopping.is_set() and not self._ended):
                return

    def _write_all(self) -> bool:
        """Write until nothing is left; False: the process stops while Redis is away."""
        while self._ended:
            threads.beat()
            batch = [self._ended.popleft() for _ in range(min(len(self._ended), MOST))]
            done: dict[Lease, list[tuple[Chunk, bytes]]] = {}
            retries: dict[int, tuple[Chunk, list[tuple[bytes, Settlement]]]] = {}
            for chunk, text, settlement in batch:
                if settlement is None:
                    done.setdefault(chunk.lease, []).append((chunk, text))
                elif self._settler.may_wait(chunk, settlement):
                    retries.setdefault(id(chunk), (chunk, []))[1].append((text, settlement))
                elif not self._insist(chunk, text, settlement):
                    return False
            for chunk, failed in retries.values():
                if not self._insist_on_retries(chunk, failed):
                    return False
            for jobs in done.values():
                if not self._insist_on(jobs):
                    return False
        return True

    def _insist(self, chunk: Chunk, text: bytes, settlement: Settlement) -> bool:
        while True:
            try:
                is_ours = self._settler.write(self._connection, chunk, text, settlement)
            except KiqbridgeError as error:
                if not self._wait_after(error):
                    return False
            else:
                self._outage.over()
                break
        if is_ours and settlement.then is not None:
            self._notifications.add([settlement.then])
        if settlement.verdict is Verdict.DROP:
            return self._insist_on([(chunk, text)])
        if chunk.elsewhere is not None:
            chunk.elsewhere.release()
        return True

    def _insist_on_retries(self, chunk: Chunk, jobs: Sequence[tuple[bytes, Settlement]]) -> bool:
        """Settle jobs of one chunk, which acknowledges them."""
        while jobs:
            # Anew each time: what did not get through is divided.
            batch = first_batch(jobs, self._connection.batch_bytes)
            try:
                told = self._settler.write_retries(self._connection, chunk, batch)
            except KiqbridgeError as error:
                if not self._wait_after(error):
                    return False
                continue
            self._outage.over()
            self._notifications.add(told)
            if chunk.elsewhere is not None:
                chunk.elsewhere.release(len(batch))
            jobs = jobs[len(batch) :]
        return True

    def _insist_on(self, jobs: list[tuple[Chunk, bytes]]) -> bool:
        """Acknowledge jobs of one lease."""
        while jobs:
            sizes = [len(text) for _, text in jobs]
            batch = jobs[: count_by_bytes(sizes, self._connection.batch_bytes)]
            try:
                acknowledge(self._connection, self._keys, batch)
            except KiqbridgeError as error:
                if not self._wait_after(error):
                    return False
                continue
            for chunk, _ in batch:
                if chunk.elsewhere is not None:
                    chunk.elsewhere.release()
            jobs = jobs[len(batch) :]
        return True

    def _wait_after(self, error: KiqbridgeError) -> bool:
        if isinstance(error, RedisUnavailable):
            self._outage.report(error)
        else:
            logger.error(
                "Redis refuses to take a job, which stays in-flight; trying again: %s", error
            )
        threads.beat()
        return not self._stopping.wait(RETRY_S)
