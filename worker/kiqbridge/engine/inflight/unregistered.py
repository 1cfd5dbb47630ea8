"""In-flight lists that no registration names: no worker performs their jobs, and no reaper finds them.

They are left behind when somebody deletes the registrations (`kb:inflight`), or when a server with an
`allkeys-` policy evicts them. Keys are looked through with SCAN, in small steps.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import glob_of, shown, text_of

logger = logging.getLogger(__name__)

STEP = 1000
"""Keys looked at in one command: some tenths of a millisecond of the server's time."""

FIRST_AFTER_S = 60.0
PAUSE_S = 600.0
"""Seconds between the end of a search and the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered:
    """What an incarnation that is not registered still holds.

    Attributes:
        incarnation: as it stands in the names of the lists.
        lists: name of each list → how many jobs it holds.
        tids: the claimers whose lists these are.
    """

    incarnation: str
    lists: Mapping[str, int]
    tids: tuple[str, ...]


class Search:
    """Goes through all keys once, step by step."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._start = f"{keys.inflight}:"
        self._cursor = b"0"
        self._names: set[str] = set()

    def note(self, names: Iterable[bytes]) -> None:
        """Of these keys the lists in flight."""
        found = map(text_of, names)
        self._names.update(name for name in found if name.startswith(self._start))

    def step(self, connection: RedisConnection) -> bool:
        """One step; whether it was the last.

        Raises:
            KiqbridgeError: repeat it.
        """
        pattern = f"{glob_of(self._start)}*"
        self._cursor, names = connection.call(
            "SCAN", self._cursor, "MATCH", pattern, "COUNT", STEP, "TYPE", "list"
        )
        self.note(names)
        return self._cursor == b"0"

    def found(self, connection: RedisConnection) -> list[Unregistered]:
        """The lists that the search has met whose owner is not registered, and that still hold jobs.

        Raises:
            KiqbridgeError: nothing is known.
        """
        owners: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(self._names):
            incarnation, _, rest = name.removeprefix(self._start).rpartition(":")
            incarnation, _, tid = incarnation.rpartition(":")
            if incarnation and rest in ("0", "1"):
                owners.setdefault(incarnation, []).append((name, tid))
        # In this order: who is not registered never will be again, and whose reap is over has no lists.
        commands = [
            command
            for incarnation, lists in owners.items()
            for command in (
                ("SISMEMBER", self._keys.inflight, incarnation),
                ("SISMEMBER", self._keys.reaping, incarnation),
                *(("LLEN", name) for name, _ in lists),
            )
        ]
        replies = iter(connection.run(*commands) if commands else ())
        looked_at = [
            _looked_at(incarnation, lists, list(islice(replies, 2 + len(lists))))
            for incarnation, lists in owners.items()
        ]
        return [each for each in looked_at if each is not None]


def _looked_at(
    incarnation: str, lists: Sequence[tuple[str, str]], replies: Sequence[int]
) -> Unregistered | None:
    is_registered, is_reaped, *counts = replies
    held = {name: count for (name, _), count in zip(lists, counts, strict=True) if count}
    if not held or is_registered or is_reaped:
        return None
    tids = dict.fromkeys(tid for name, tid in lists if name in held)
    return Unregistered(incarnation=incarnation, lists=held, tids=tuple(tids))


def search_unregistered(
    connection: RedisConnection, keys: Keys, names: Iterable[bytes]
) -> list[Unregistered]:
    """Those of which a list is among these keys.

    Raises:
        KiqbridgeError: nothing is known.
    """
    search = Search(keys)
    search.note(names)
    return search.found(connection)


def find_unregistered(connection: RedisConnection, keys: Keys) -> list[Unregistered]:
    """Look through all keys at once.

    Raises:
        KiqbridgeError: nothing is known.
    """
    search = Search(keys)
    while not search.step(connection):
        pass
    return search.found(connection)


class UnregisteredWatch:
    """Searches now and then, one step at a call, and warns once of each that it finds."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._search: Search | None = None
        self._next_at: float | None = None
        self._reported: set[str] = set()

    def step(self, connection: RedisConnection, now: float) -> None:
        """Go on with the search, if it is due; called every few seconds by one process of the fleet.

        Args:
            connection: to Redis.
            now: seconds on a monotonic clock.

        Raises:
            KiqbridgeError: the next search begins later, from the start.
        """
        if self._next_at is None:
            self._next_at = now + FIRST_AFTER_S
        if now < self._next_at:
            return
        self._search = self._search or Search(self._keys)
        try:
            if not self._search.step(connection):
                return
            found = self._search.found(connection)
        except KiqbridgeError:
            self._search, self._next_at = None, now + PAUSE_S
            raise
        names = set()
        for each in found:
            names.add(each.incarnation)
            if each.incarnation not in self._reported:
                logger.warning(
                    "%d jobs are in flight for %s, which is not registered: no worker performs them or gives "
                    "them back (%s); somebody has deleted %s, or Redis has evicted it; run `kiqbridge recover`",
                    sum(each.lists.values()),
                    shown(each.incarnation),
                    shown(", ".join(each.lists)),
                    self._keys.inflight,
                )
        self._reported = names
        self._search, self._next_at = None, now + PAUSE_S
