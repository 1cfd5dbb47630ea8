"""The thread of a worker that writes what has ended there.

1. It sleeps until something is noted (engine/perform/ended.py), and a second later takes all that was; five seconds
   after the turn before at the earliest, since many records cost Redis little more than one.
2. Of each class and kind it keeps the last ones, as many as Redis would.
3. One script for each fifty writes them. The more were written, the longer it waits until the next turn: so a flood
   costs a process some hundred records a second at most, whatever it performs.
4. While the server uses more than four fifths of its memory nothing is written, and what ended meanwhile is not on record.

A process that is killed loses what ended there within the last seconds; the jobs themselves are not touched by that.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.ended import Ended, LastEnded
from kiqbridge.errors import RedisRefused
from kiqbridge.features.done.record import MOST_BYTES, Entry, entry_of
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import Role
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.server_memory import parse_memory
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

IN_ALL: Final = 100
"""So many times the bound of a class are kept in all."""

KEPT_S: Final = 30 * 86_400
"""Seconds after the last end in which records are forgotten."""

SOON_S: Final = 1.0
"""From the first end that is noted to the turn that writes it."""
LEAST_S: Final = 5.0
MOST_S: Final = 10.0
"""Between two turns."""

RECORDS_A_SECOND: Final = 100
MOST_AT_ONCE: Final = 1_000
"""Records of one turn."""

BATCH: Final = 50
"""Records that one script writes: about a millisecond at the server."""

FULL: Final = 0.8
"""The part of the server's memory above which nothing is written."""

MEMORY_S: Final = 10.0
"""Seconds between two looks at the memory."""

_NOTE: Final = scripts.load("note_done", __file__)


def roles(parts: EngineParts) -> "tuple[Keeper, ...]":
    """The thread."""
    keep = parts.config.keep_done
    return (Keeper(parts.ended, parts.connect(), parts.keys, worker=parts.identity, keep=keep),)


class Keeper(Role):
    """Writes what has ended in a process.

    Args:
        ended: what has ended.
        connection: its own.
        keys: the namespace.
        worker: identity of the process.
        keep: how many of a class and kind are kept.
    """

    def __init__(
        self, ended: LastEnded, connection: RedisConnection, keys: Keys, *, worker: str, keep: int
    ) -> None:
        super().__init__("done", self._keep_on, work="keeping jobs that have ended (keep_done)")
        ended.most, ended.wake = keep, self._noted
        self._ended = ended
        self._connection = connection
        self._keys = keys
        self._worker = worker
        self._keep = keep
        self._is_full = False
        self._looked_at = float("-inf")

    def turn(self) -> int:
        """Write what has ended since the last turn; how many records that was.

        Raises:
            RedisUnavailable, RedisRefused: these are not on record.
        """
        taken = self._ended.take()
        if not taken or self._is_nearly_full():
            return 0
        entries = [
            entry
            for entry in (entry_of(each, self._worker) for each in _last(taken, self._keep))
            if entry is not None
        ]
        for first in range(0, len(entries), BATCH):
            note(self._connection, self._keys, entries[first : first + BATCH], self._keep)
        return len(entries)

    def _is_nearly_full(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= MEMORY_S:
            self._looked_at = now
            try:
                memory = parse_memory(self._connection.call("INFO", "memory"))
            except RedisRefused:  # then its bounds are all that bounds it
                memory = None
            was_full, self._is_full = self._is_full, memory is not None and memory.share > FULL
            if self._is_full != was_full:
                said = (
                    "is nearly full: jobs that end are not"
                    if self._is_full
                    else "has room: jobs that end are"
                )
                logger.warning("Redis %s put on record (keep_done)", said)
        return self._is_full

    def _noted(self) -> None:
        if not self._some.is_set():
            self._some.set()

    def _keep_on(self) -> None:
        next_at = float("-inf")
        while True:
            threads.rest()
            self._some.wait()
            is_last = self._stopping.wait(max(SOON_S, next_at - time.monotonic()))
            threads.beat()
            self._some.clear()  # first: what is noted from now on may be left
            written = 0

            def act() -> None:
                nonlocal written
                written = self.turn()

            self.tried(act)
            if is_last:
                return
            next_at = time.monotonic() + min(max(LEAST_S, written / RECORDS_A_SECOND), MOST_S)


def note(connection: RedisConnection, keys: Keys, entries: Iterable[Entry], keep: int) -> int:
    """Write records; how many executions were new.

    Raises:
        RedisUnavailable: repeat it; what is there already is not added again.
        RedisRefused: a key is of another type, or Redis is full.
    """
    args: list[str | bytes | float] = [keep, IN_ALL * keep, MOST_BYTES, KEPT_S]
    args += [part for entry in entries for part in entry]
    return int(connection.script(_NOTE, [keys.done, keys.done_classes, keys.done_jobs], args))


def _last(taken: Iterable[Ended], keep: int) -> Sequence[Ended]:
    """Of each class and outcome the last ones, and no more than one turn writes; the earliest first."""
    by_kind: dict[tuple[str, str], list[Ended]] = defaultdict(list)
    for each in sorted(taken, key=lambda ended: ended.at):
        by_kind[each.name, each.outcome].append(each)
    most = max(1, min(keep, MOST_AT_ONCE // len(by_kind)))
    return [each for several in by_kind.values() for each in several[-most:]][:MOST_AT_ONCE]
