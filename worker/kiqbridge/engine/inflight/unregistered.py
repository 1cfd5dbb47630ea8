"""In-flight lists that no registration names: no worker performs their jobs, and no reaper finds them.

They are left behind when somebody deletes the registrations (`kb:inflight`), or when a server with an
`allkeys-` policy evicts them. Keys are looked through with SCAN, in small steps.
"""

import logging
from collections.abc import Iterable, Mapping

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

    def step(self, connection: RedisConnection) -> bool:
        """One step; whether it was the last.

        Raises:
            KiqbridgeError: repeat it.
        """
        pattern = f"{glob_of(self._start)}*"
        self._cursor, names = connection.call(
            "SCAN", self._cursor, "MATCH", pattern, "COUNT", STEP, "TYPE", "list"
        )
        self._names.update(text_of(name) for name in names)
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
        return [
            each
            for incarnation, lists in owners.items()
            for each in self._look_at(connection, incarnation, lists)
        ]

    def _look_at(
        self, connection: RedisConnection, incarnation: str, lists: list[tuple[str, str]]
    ) -> Iterable[Unregistered]:
        # In this order: who is not registered never will be again, and whose reap is over has no lists.
        is_registered, is_reaped, *counts = connection.run(
            ("SISMEMBER", self._keys.inflight, incarnation),
            ("SISMEMBER", self._keys.reaping, incarnation),
            *(("LLEN", name) for name, _ in lists),
        )
        held = {name: count for (name, _), count in zip(lists, counts, strict=True) if count}
        if held and not is_registered and not is_reaped:
            tids = dict.fromkeys(tid for name, tid in lists if name in held)
            yield Unregistered(incarnation=incarnation, lists=held, tids=tuple(tids))


def search_unregistered(
    connection: RedisConnection, keys: Keys, steps: int
) -> tuple[list[Unregistered], bool]:
    """Look through keys in at most so many steps; the second value: whether all keys were read.

    Raises:
        KiqbridgeError: nothing is known.
    """
    search = Search(keys)
    is_whole = any(search.step(connection) for _ in range(steps))
    return search.found(connection), is_whole


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
                    "them back (%s); somebody has deleted %s, or Redis has evicted it; run "
                    "`kiqbridge recover`",
                    sum(each.lists.values()),
                    shown(each.incarnation),
                    shown(", ".join(each.lists)),
                    self._keys.inflight,
                )
        self._reported = names
        self._search, self._next_at = None, now + PAUSE_S
