"""Getting the next jobs for one processor thread: claim, or wait until there is something (§6)."""

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from kiqbridge import user_code
from kiqbridge.claims import Chunk, Claimer, Elsewhere, SpareClaimers
from kiqbridge.clock import lease_now
from kiqbridge.errors import KiqbridgeError
from kiqbridge.queues import QueueOrder
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.rooms import Rooms, spellings
from kiqbridge.wakeup import IdleGate

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Seconds between tries while Redis is away."""

MISREAD_S = 0.1
"""Pause after a job that was claimed, though jobs of its class were not to be."""


class Outage:
    """Tells once that Redis is away, and once for how long it was; shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def report(self, error: KiqbridgeError) -> None:
        """A call failed."""
        with self._lock:
            if self._since is not None:
                return
            self._since = lease_now()
        _log(logging.ERROR, "%s; trying again every second, running jobs go on", error)

    def over(self) -> None:
        """A call succeeded."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            _log(logging.INFO, "Redis is back after %.1f s", lease_now() - since)


def _log(level: int, message: str, *args: object) -> None:
    """Log, whatever a user's log handler raises: a chunk that was just claimed must not be lost by it."""
    user_code.call(logger.log, level, message, *args, log=logger, failed="a log handler failed")


class Fetches(Protocol):
    """Where a processor gets its jobs from.

    Attributes:
        connection: the thread's own, for settling what it fetched.
        has_fetched: a claim has succeeded, whether or not it brought jobs.
        refused: the unexpected error of the first claim, if it raised one.
    """

    connection: RedisConnection
    has_fetched: bool
    refused: BaseException | None

    def fetch(self, most: int, give_up: threading.Event) -> Chunk | None:
        """Jobs of one queue, or None: look whether to go on."""

    def acknowledge(self, give_up: threading.Event) -> None:
        """Acknowledge the last chunk without taking another."""

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """The same from another thread, when this one begins nothing any more."""

    def share(self, chunk: Chunk) -> None:
        """Jobs of this chunk, the last one fetched, run elsewhere: they are acknowledged singly."""

    def was_put_back(self, chunk: Chunk, name: str, give_up: threading.Event) -> None:
        """The next job of this chunk, of the class `name`, found no room; all of it was given back."""

    def part_with(self, chunk: Chunk) -> None:
        """Leave a shared chunk to those who run its jobs, and fetch on under another name."""


class Fetcher:
    """Chunks for one thread, in the order of its capsule's queues."""

    def __init__(
        self,
        claimer: Claimer,
        order: QueueOrder,
        gate: IdleGate,
        outage: Outage,
        spare: SpareClaimers | None = None,
        *,
        rooms: Rooms | None = None,
    ) -> None:
        self.claimer = claimer
        self.connection = claimer.connection
        self._spare = spare
        self._order = order
        self._gate = gate
        self._outage = outage
        self._rooms = rooms or Rooms((), {})
        self._without: Sequence[str] = ()
        self._woken = False
        self.has_fetched = False
        self.refused: BaseException | None = None

    def fetch(self, most: int, give_up: threading.Event) -> Chunk | None:
        """Up to `most` jobs of one queue; blocks while idle. None: look whether to go on.

        Acknowledges the chunk before.
        """
        try:
            if self._rooms.is_tight:
                most, self._without = self._rooms.allowance(most)
            else:
                self._without = ()
            chunk = self.claimer.claim(self._order(), most, self._without)
        except KiqbridgeError as error:
            self._looked(found=False)
            self._outage.report(error)
            give_up.wait(RETRY_S)
            return None
        except BaseException as error:
            self._looked(found=False)  # else nobody who is idle would be woken any more
            if not self.has_fetched:
                self.refused = error
            raise
        self.has_fetched = True
        self._outage.over()
        self._looked(found=chunk is not None)
        if chunk is None:
            self._woken = True  # before: an error raised in this thread may come in between
            self._gate.wait_for_work()
        return chunk

    def acknowledge(self, give_up: threading.Event) -> None:
        """Acknowledge the last chunk without taking another, as soon as Redis lets us."""
        while True:
            try:
                self.claimer.claim((), 0)
            except KiqbridgeError as error:
                self._outage.report(error)
                if give_up.wait(RETRY_S):
                    return
            else:
                return

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """See `Claimer.acknowledge_for`."""
        self.claimer.acknowledge_for(connection)

    def share(self, chunk: Chunk) -> None:
        """See `Fetches.share`."""
        if chunk.elsewhere is None and self._spare is not None:
            chunk.elsewhere = Elsewhere(self.claimer, self._spare.free)

    def was_put_back(self, chunk: Chunk, name: str, give_up: threading.Event) -> None:  # noqa: ARG002 - see `Fetches`
        """See `Fetches.was_put_back`."""
        if any(spelling in self._without for spelling in spellings(name)):
            # Its text spells the class in a way of its own, so the server did not know it: it comes back
            # with the next claim, and again.
            give_up.wait(MISREAD_S)

    def part_with(self, chunk: Chunk) -> None:
        """See `Fetches.part_with`."""
        if chunk.elsewhere is not None and self._spare is not None:
            self.claimer = self._spare.lend(self.connection)
            chunk.elsewhere.release()

    def _looked(self, *, found: bool) -> None:
        if self._woken:
            self._woken = False
            self._gate.looked(found=found)
