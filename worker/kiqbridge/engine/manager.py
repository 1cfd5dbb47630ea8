"""All who perform jobs, over all capsules: starting, quieting, and ending them by a deadline (protocol §14)."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING

from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.perform.processor import Processor
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.runtime import user_code
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from kiqbridge.engine.perform.event_loop import EventLoop
    from kiqbridge.engine.settle.notifications import Notification

logger = logging.getLogger(__name__)

CLEANUP_S = 3.0
"""How long interrupted threads may run their cleanup (§14.4)."""

LAST_WORD_S = 1.0
"""How long each of the threads that end last may take for what it has in hand."""

HANDLERS_S = 5.0
"""How long the handlers of failed jobs may take at the end, if the jobs ended in time."""

LOCK_S = 0.5

FIRST_CLAIMS_S = 0.005
"""Between two looks whether all threads have made their first claim: it takes a millisecond or two."""

LOOK_S = 0.2
"""How soon it is noticed that somebody is in a hurry."""


@dataclass(slots=True, eq=False)
class Manager:
    """Owns the processors, the event loops and who acknowledges for these.

    `on_late` is called at the deadline of a stop if jobs run still, before they are given back.
    """

    processors: list[Processor]
    gates: Sequence[IdleGate]
    connection: RedisConnection
    keys: Keys
    notifications: Notifications
    _: KW_ONLY
    loops: "Sequence[EventLoop]" = ()
    bookkeeper: Bookkeeper | None = None
    on_late: Callable[[], object] = lambda: None
    _quieted: threading.Event = field(init=False, default_factory=threading.Event)
    _hurried: threading.Event = field(init=False, default_factory=threading.Event)

    def __repr__(self) -> str:
        busy = sum(processor.current is not None for processor in self.processors)
        state = "quiet" if self._quieted.is_set() else "running"
        return f"<Manager {state}, {busy} of {len(self.processors)} busy>"

    def start(self) -> None:
        """Start all threads; the event loops run already."""
        if self.bookkeeper is not None:
            self.bookkeeper.start()
        for processor in self.processors:
            processor.start()

    def wait_for_claims(self, stopping: threading.Event) -> bool:
        """Wait until each thread has made its first claim, however long Redis is away; False: the process stops.

        Raises:
            KiqbridgeError: one of them could not make its claim for a reason that stays.
        """
        while not stopping.is_set():
            fetchers = [each.fetcher for each in self.processors]
            for fetcher in fetchers:
                if (error := fetcher.refused) is not None:
                    raise KiqbridgeError(
                        f"the first claim of jobs failed: {type(error).__name__}: {error}"
                    ) from error
            if self._quieted.is_set() or all(each.has_fetched for each in fetchers):
                return True
            stopping.wait(FIRST_CLAIMS_S)
        return False

    def quiet(self) -> None:
        """No new jobs from now on; running ones go on."""
        self._quieted.set()
        for processor in self.processors:
            processor.quiet()
        for gate in self.gates:
            gate.open()

    def hurry(self) -> None:
        """Wait no longer for running jobs: they are given back and interrupted."""
        self._hurried.set()

    def stop(self, deadline: float) -> None:
        """Wait for running jobs until the deadline (`time.monotonic`), then give them back."""
        self.quiet()
        self._wait_for_jobs(deadline)
        late = [loop for loop in self.loops if not loop.wait(time.monotonic())]
        busy = [processor for processor in self.processors if processor.alive]
        if late or busy:
            self._interrupt(late, busy)
        for loop in self.loops:
            loop.stop(LAST_WORD_S)
        if self.bookkeeper is not None:
            self.bookkeeper.stop(LAST_WORD_S)
        # Last, since all before may fail jobs. Longer than a moment only within the time that jobs had.
        left = min(deadline - time.monotonic(), HANDLERS_S)
        self.notifications.stop(max(left, LAST_WORD_S))

    def _interrupt(self, late: "Sequence[EventLoop]", busy: Sequence[Processor]) -> None:
        """Give back first, then interrupt: running twice is better than losing."""
        # A thread may also be waiting for a Redis that does not answer, without a job.
        running = sum(processor.current is not None for processor in busy)
        running += sum(len(loop.running()) for loop in late)
        if running:
            logger.warning(
                "%d jobs did not finish in time: they are given back and interrupted", running
            )
            user_code.call(self.on_late, log=logger, failed="looking for stuck jobs failed")
        workers: list[Processor | EventLoop] = [*busy, *late]
        for worker in workers:
            if not self._give_back(worker):
                break  # Redis is away, for the others as well
        for processor in busy:
            processor.interrupt()
        for loop in late:
            loop.cancel()
        until = time.monotonic() + CLEANUP_S
        self._wait_until(until)
        for loop in late:
            loop.wait(until)

    def let_go(self, lost: Processor, other: Processor) -> None:
        """Settle what a thread holds that does not come back, and let another take its place.

        Raises:
            KiqbridgeError: not all was settled; what it holds stays in flight until this process ends.
            RuntimeError, MemoryError: the other one could not be started; the watch over threads replaces it as well.
        """
        self.processors[self.processors.index(lost)] = other
        lost.quiet()
        try:
            self._give_back_of(lost)
        finally:
            if not self._quieted.is_set():
                other.start()

    def _wait_for_jobs(self, deadline: float) -> None:
        while not self._hurried.is_set() and time.monotonic() < deadline:
            look_again_at = min(time.monotonic() + LOOK_S, deadline)
            self._wait_until(look_again_at)
            ended = not any(processor.alive for processor in self.processors)
            if ended and all(loop.wait(look_again_at) for loop in self.loops):
                return

    def _wait_until(self, deadline: float) -> None:
        for processor in self.processors:
            processor.join(max(deadline - time.monotonic(), 0))

    def _give_back(self, worker: "Processor | EventLoop") -> bool:
        """False: no Redis."""
        try:
            if isinstance(worker, Processor):
                self._give_back_of(worker)
            else:
                worker.give_back(self.connection, self.keys)
        except KiqbridgeError as error:
            logger.warning(
                "%s: its jobs stay in flight, another process gives them back: %s", worker, error
            )
            return not isinstance(error, RedisUnavailable)
        return True

    def _give_back_of(self, processor: Processor) -> None:
        chunk = processor.chunk
        if chunk is None or not chunk.writing.acquire(timeout=LOCK_S):
            return  # if it has one, its thread is giving back itself, and waits for Redis to answer
        notifications: list[Notification] = []
        try:
            chunk.revoke_unfinished()
            give_back(self.connection, self.keys, chunk)
            notifications = processor.write_ended(chunk, self.connection)
            processor.acknowledge(chunk, self.connection)
        finally:
            chunk.writing.release()
            self.notifications.add(notifications)
