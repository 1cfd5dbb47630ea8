"""The processors of one capsule: starting them, quieting them, and ending them by a deadline (§14)."""

import logging
import threading
import time
from collections.abc import Sequence

from kiqbridge.claims import give_back
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.keys import Keys
from kiqbridge.processor import Processor
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.wakeup import IdleGate

logger = logging.getLogger(__name__)

CLEANUP_S = 3.0
"""How long interrupted threads may run their cleanup (§14.4)."""

LOCK_S = 0.5


class Manager:
    """Owns the processors."""

    def __init__(
        self,
        processors: Sequence[Processor],
        gate: IdleGate,
        connection: RedisConnection,
        keys: Keys,
    ) -> None:
        self.processors = processors
        self._gate = gate
        self._connection = connection
        self._keys = keys
        self._quieted = threading.Event()

    def __repr__(self) -> str:
        busy = sum(processor.current is not None for processor in self.processors)
        state = "quiet" if self._quieted.is_set() else "running"
        return f"<Manager {state}, {busy} of {len(self.processors)} busy>"

    def start(self) -> None:
        """Start all threads."""
        for processor in self.processors:
            processor.start()

    def quiet(self) -> None:
        """No new jobs from now on; running ones go on."""
        self._quieted.set()
        for processor in self.processors:
            processor.quiet()
        self._gate.open()

    def stop(self, deadline: float) -> None:
        """Wait for running jobs until the deadline (`time.monotonic`), then give them back."""
        self.quiet()
        self._wait_until(deadline)
        busy = [processor for processor in self.processors if processor.alive]
        if not busy:
            return
        # A thread may also be waiting for a Redis that does not answer, without a job.
        running = sum(processor.current is not None for processor in busy)
        if running:
            logger.warning(
                "%d jobs did not finish in time: they are given back and interrupted", running
            )
        for processor in busy:
            if not self._give_back(processor):
                break  # Redis is away, for the others as well
        for processor in busy:
            processor.interrupt()
        self._wait_until(time.monotonic() + CLEANUP_S)

    def _wait_until(self, deadline: float) -> None:
        for processor in self.processors:
            processor.join(max(deadline - time.monotonic(), 0))

    def _give_back(self, processor: Processor) -> bool:
        """Requeue before the interrupt: running twice is better than losing. False: no Redis."""
        chunk = processor.chunk
        if chunk is None:
            return True
        if not chunk.lock.acquire(timeout=LOCK_S):
            return True  # its thread is giving back itself, and waits for Redis
        try:
            give_back(self._connection, self._keys, chunk, processor.unfinished())
            processor.acknowledge(self._connection)
        except KiqbridgeError as error:
            logger.warning(
                "%s: its jobs stay in flight, another process gives them back: %s", processor, error
            )
            return not isinstance(error, RedisUnavailable)
        finally:
            chunk.lock.release()
        return True
