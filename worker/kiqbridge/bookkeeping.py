"""Acknowledging jobs one by one, a few milliseconds' worth in one go, off the threads that run them.

For jobs that run many at once on an event loop: waiting for the chunk's last would keep hundreds of
finished ones unacknowledged. The handlers of failed jobs are called by another thread (notifications.py),
after what became of the job is written: a handler that takes long holds up no acknowledgement.
"""

import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from kiqbridge import threads, user_code
from kiqbridge.batches import count_by_bytes
from kiqbridge.claims import Chunk, acknowledge, give_back
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.execution import Settlement
from kiqbridge.fetch import RETRY_S, Outage
from kiqbridge.keys import Keys
from kiqbridge.notifications import Notifications
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict
from kiqbridge.settling import Settler, Tell, first_batch
from kiqbridge.threads import keep_running

if TYPE_CHECKING:
    from kiqbridge.lease import Lease

logger = logging.getLogger(__name__)

GATHER_S = 0.005
MOST = 1000
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
        self._returning: deque[tuple[float, Chunk, bytes, Tell | None]] = deque()
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

    def give_back(self, chunk: Chunk, text: bytes, then: Tell | None = None) -> None:
        """A job cannot go on here: put it back to its queue, and then call `then`.

        After a second, since it may come back to this process at once, and fail here again.
        """
        self._returning.append((time.monotonic() + RETURN_S, chunk, text, then))
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
            batch = [self._ended.popleft() for _ in range(min(len(self._ended), MOST))]
            done: dict[Lease, list[tuple[Chunk, bytes]]] = {}
            retries: dict[int, tuple[Chunk, list[tuple[bytes, Settlement]]]] = {}
            for chunk, text, settlement in batch:
                if settlement is None:
                    done.setdefault(chunk.lease, []).append((chunk, text))
                elif self._settler.may_wait(chunk, settlement):
                    retries.setdefault(id(chunk), (chunk, []))[1].append((text, settlement))
                elif not self._settle(chunk, text, settlement):
                    return False
            for chunk, failed in retries.values():
                if not self._settle_retries(chunk, failed):
                    return False
            for jobs in done.values():
                if not self._acknowledge(jobs):
                    return False
        return True

    def _return_all(self) -> bool:
        """Give back what has waited long enough; False as in `_write_all`."""
        while self._returning and (self._until_return() == 0 or self._stopping.is_set()):
            _, chunk, text, then = self._returning.popleft()
            with chunk.lock:
                chunk.leaving.append(text)
            outcome = self._insist([], functools.partial(self._give_back, chunk))
            if outcome is Outcome.STOPPED:
                return False
            self._notifications.add([then] if then else [])
            if outcome is Outcome.WRITTEN and chunk.elsewhere is not None:
                chunk.elsewhere.release()
        return True

    def _give_back(self, chunk: Chunk) -> None:
        with chunk.lock:
            give_back(self._connection, self._keys, chunk, ())

    def _until_return(self) -> float | None:
        """Seconds until the next job is to be given back; None: there is none."""
        return max(self._returning[0][0] - time.monotonic(), 0) if self._returning else None

    def _settle(self, chunk: Chunk, text: bytes, settlement: Settlement) -> bool:
        is_ours = False

        def write() -> None:
            nonlocal is_ours
            is_ours = self._settler.write(self._connection, chunk, text, settlement)

        outcome = self._insist([(chunk, text)], write)
        if outcome is not Outcome.WRITTEN:
            return outcome is not Outcome.STOPPED
        if is_ours and settlement.then is not None:
            self._notifications.add([settlement.then])
        if settlement.verdict is Verdict.DROP:
            return self._acknowledge([(chunk, text)])
        if chunk.elsewhere is not None:
            chunk.elsewhere.release()
        return True

    def _settle_retries(self, chunk: Chunk, jobs: Sequence[tuple[bytes, Settlement]]) -> bool:
        """Settle jobs of one chunk, which acknowledges them."""
        while jobs:
            written: list[tuple[bytes, Settlement]] = []
            told: list[Tell] = []
            outcome = self._insist(
                [(chunk, text) for text, _ in jobs],
                functools.partial(self._write_retries, chunk, jobs, written, told),
            )
            if outcome is not Outcome.WRITTEN:
                return outcome is not Outcome.STOPPED
            self._notifications.add(told)
            if chunk.elsewhere is not None:
                chunk.elsewhere.release(len(written))
            jobs = jobs[len(written) :]
        return True

    def _acknowledge(self, jobs: list[tuple[Chunk, bytes]]) -> bool:
        """Acknowledge jobs of one lease."""
        while jobs:
            written: list[tuple[Chunk, bytes]] = []
            outcome = self._insist(jobs, functools.partial(self._write_done, jobs, written))
            if outcome is not Outcome.WRITTEN:
                return outcome is not Outcome.STOPPED
            for chunk, _ in written:
                if chunk.elsewhere is not None:
                    chunk.elsewhere.release()
            jobs = jobs[len(written) :]
        return True

    def _write_retries(
        self,
        chunk: Chunk,
        jobs: Sequence[tuple[bytes, Settlement]],
        written: list[tuple[bytes, Settlement]],
        told: list[Tell],
    ) -> None:
        # Anew each time: what did not get through is divided.
        written[:] = first_batch(jobs, self._connection.batch_bytes)
        told[:] = self._settler.write_retries(self._connection, chunk, written)

    def _write_done(
        self, jobs: list[tuple[Chunk, bytes]], written: list[tuple[Chunk, bytes]]
    ) -> None:
        sizes = [len(text) for _, text in jobs]
        written[:] = jobs[: count_by_bytes(sizes, self._connection.batch_bytes)]
        acknowledge(self._connection, self._keys, written)

    def _insist(
        self, jobs: Sequence[tuple[Chunk, bytes]], write: Callable[[], object]
    ) -> "Outcome":
        """Repeat a write until Redis has taken it. What nobody expected concerns these jobs alone."""
        while True:
            try:
                write()
            except KiqbridgeError as error:
                if not self._wait_after(error):
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
            else:
                self._outage.over()
                return Outcome.WRITTEN

    def _wait_after(self, error: KiqbridgeError) -> bool:
        if isinstance(error, RedisUnavailable):
            self._outage.report(error)
        else:
            logger.error(
                "Redis refuses to take a job, which stays in-flight; trying again: %s", error
            )
        threads.beat()
        return not self._stopping.wait(RETRY_S)
