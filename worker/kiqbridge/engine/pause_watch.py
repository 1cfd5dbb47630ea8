"""Which classes are paused, known in memory within a millisecond, and the end of pauses in time.

Every worker process watches: the server notifies a connection with client-side caching when a pause
changes, so that the pauses are read again only then, and now and then for safety. Queues need no watching to be
paused, claims see to that; their pauses are ended here when their time is over.
"""

import logging
import time
from collections.abc import Callable, Collection

from redis.connection import AbstractConnection

from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.hints import Hint
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.pauses import TOO_EARLY, Entry, end_pause, read_entries, server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import pairs_of
from kiqbridge.store.tracking_connection import TrackingConnection
from kiqbridge.store.wake_connection import RETRY_S, SAFETY_LOOK_S
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import bytes_of, shown

logger = logging.getLogger(__name__)

LOOK_WITHOUT_TRACKING_S = 0.5
"""A pause is honoured within a second, also where the server does not notify of changes."""

SELDOM_LOOK_S = 60.0
"""A look after so long at the latest, while the beat of the lease finds as many pauses as were read."""

LEAST_WAIT_S = 0.01
JOIN_S = 1.0


class PauseWatch(Role):
    """The thread that watches the pauses.

    Attributes:
        classes: names of the classes that are paused now; replaced, never changed. While Redis is
            away they stay as they were.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        connection: RedisConnection,
        track: Callable[..., AbstractConnection],
        safety_look_s: float = SAFETY_LOOK_S,
    ) -> None:
        super().__init__(
            "pauses", self._watch, work="watching pauses", until=Until.JOBS, join_s=JOIN_S
        )
        self.classes: frozenset[str] = frozenset()
        self._keys = keys
        self._connection = connection
        self._tracking = TrackingConnection(track, watched="pauses")
        self._safety_look_s = safety_look_s
        self._read: dict[bytes, bytes] = {}
        self._entries: list[Entry] = []
        self._server_ahead_s: float | None = None
        self._hint = Hint()

    def start(self) -> None:
        """Look once, so that a paused class is known before the first job, and go on watching."""
        if not self.tried(self.look):
            logger.warning("pauses of classes are not known yet")
        super().start()

    def note(self, *, pauses: int) -> None:
        """How many pauses there are, as the beat of the lease has found out. From any thread, at once."""
        self._hint.give(is_some=pauses != len(self._read))

    def stop(self, timeout_s: float | None = None) -> None:
        """End the watch."""
        self._stopping.set()
        self._tracking.interrupt()
        super().stop(timeout_s)
        self._tracking.close()

    def look(self) -> float:
        """Read the pauses, end those that are over; seconds until it is worth looking again.

        Raises:
            KiqbridgeError: the classes stay as they were.
        """
        over = self._find_over(self._read_all())
        self.classes = frozenset(
            entry.pause.name
            for entry in self._entries
            if entry.pause.kind == "class" and entry not in over
        )
        for entry in over:
            outcome = end_pause(self._connection, self._keys, entry)
            if outcome == 1:
                ended = entry.pause
                logger.info("the pause of %s %s is over", ended.kind, shown(ended.name))
            elif outcome == TOO_EARLY:
                self._server_ahead_s = None  # its clock was set: ask for the time again
        now = self._server_now()
        ends = [each.pause.until for each in self._entries if each.pause.until is not None]
        soonest = min((end - now for end in ends), default=self._safety_look_s)
        return min(max(soonest, LEAST_WAIT_S), self._safety_look_s)

    def _read_all(self) -> Collection[bytes]:
        """Read what changed; answers the members of `paused`, empty if no pause asks for them.

        Nothing else may be read on this connection, and not in two goes: the news of a change that
        came between two replies would be passed over.
        """
        hash_, set_ = ("HGETALL", self._keys.pauses), ("SMEMBERS", self._keys.paused)
        while True:
            commands = [hash_, set_] if self._names_queues() else [hash_]
            reply, *members = self._tracking.read(*commands)
            fields = pairs_of(reply)
            if fields != self._read:
                self._entries = list(read_entries(fields))
                self._server_ahead_s = None
                self._read = fields
            if members:
                found: Collection[bytes] = members[0]
                return found
            if not self._names_queues():
                return ()

    def _names_queues(self) -> bool:
        return any(entry.pause.kind == "queue" for entry in self._entries)

    def _find_over(self, members: Collection[bytes]) -> list[Entry]:
        now = self._server_now()
        over = [
            entry
            for entry in self._entries
            if entry.pause.until is not None and entry.pause.until <= now
        ]
        # Taking the queue off the set, as Sidekiq Pro does, ends the pause; this entry must not end
        # one that is made there later.
        return over + [
            entry
            for entry in self._entries
            if entry.pause.kind == "queue"
            and entry not in over
            and bytes_of(entry.pause.name) not in members
        ]

    def _server_now(self) -> float:
        """The time of Redis, asked for once per change: no other clock is compared with a pause's end."""
        if not any(entry.pause.until is not None for entry in self._entries):
            return 0.0
        if self._server_ahead_s is None:
            self._server_ahead_s = server_time(self._connection.call("TIME")) - lease_now()
        return lease_now() + self._server_ahead_s

    def _wait(self, seconds: float) -> None:
        """Until something has changed, or it may have: a message may have been lost."""
        look_at = time.monotonic() + SELDOM_LOOK_S
        while not self._tracking.wait(seconds):
            threads.beat()
            is_seldom = seconds >= self._safety_look_s and self._hint.says_nothing
            if not is_seldom or time.monotonic() >= look_at or self._stopping.is_set():
                return

    def _watch(self) -> None:
        while not self._stopping.is_set():
            threads.beat()
            if not self.tried(self._turn):
                self._stopping.wait(RETRY_S)

    def _turn(self) -> None:
        seconds = self.look()
        self.troubles.worked(self._work)
        if self._tracking.tracks:
            self._wait(seconds)
        else:
            self._stopping.wait(min(seconds, LOOK_WITHOUT_TRACKING_S))
