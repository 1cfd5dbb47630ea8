"""The registered incarnations of worker processes: who is alive, who is silent, what they hold.

And in-flight lists that no registration names: no worker performs their jobs, and no reaper finds them. They are left
behind when somebody deletes the registrations (`kb:inflight`), or when a server with an `allkeys-` policy evicts
them. Keys are looked through with SCAN, in small steps.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import glob_of, shown, text_of

if TYPE_CHECKING:
    from kiqbridge.store.round_trip import Command


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
            _found(incarnation, lists, list(islice(replies, 2 + len(lists))))
            for incarnation, lists in owners.items()
        ]
        return [each for each in looked_at if each is not None]


def _found(
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


State = Literal["alive", "silent", "being reaped", "not registered", "unknown layout"]


class SignOfLife(NamedTuple):
    """One sign of life as it stands in Redis (see renew.lua).

    Attributes:
        number: of the beat.
        at: the server's time (epoch seconds), for display.
        silent_after_s: how long its owner may be silent.
    """

    number: int
    at: float
    silent_after_s: float

    @classmethod
    def parse(cls, text: bytes | None) -> "SignOfLife | None":
        """None: there is none, or nothing that can be read."""
        try:
            number, at, silent_after_ms = (text or b"").split()
            return cls(int(number), float(at), int(silent_after_ms) / 1000)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One lease as Redis shows it.

    Attributes:
        name: LAYOUT:HOST:PID:NONCE:N.
        state: `silent` = its last sign of life is older than its owner may be silent, on the server's
            clock, or in its future: it may be dead, which only a watch can show; `being reaped` = its owner is
            fenced, and not all of its jobs went back yet; `not registered` =
            its lists are there, and no process looks after them; `unknown layout` = not ours to rescue.
        silent_for_s: seconds since its last sign of life, on the server's clock; None: there is none.
        beat: that sign of life, as it was read.
        tids: of one that is not registered: the claimers whose lists were found.
        held: queue → how many of its jobs are in flight, or the name of the list if it is not
            registered; of an unknown layout nothing is known.
    """

    name: str
    state: State
    silent_for_s: float | None
    beat: bytes | None
    held: Mapping[str, int]
    tids: tuple[str, ...] = ()

    @property
    def held_jobs(self) -> int:
        """How many jobs it holds."""
        return sum(self.held.values())


def list_incarnations(connection: RedisConnection, keys: Keys) -> list[Incarnation]:
    """All registered incarnations, by name, and those that are not and hold jobs.

    Looks through all keys of the server for the latter.

    Raises:
        RedisUnavailable: nothing was read.
    """
    named = list_registered(connection, keys)
    try:
        found = find_unregistered(connection, keys)
    except (
        RedisRefused
    ) as error:  # such as by an ACL without SCAN; the others can be rescued all the same
        logger.warning("lists in flight that no registration names are not looked for: %s", error)
        found = []
    return named + [_unregistered(each) for each in found]


def list_registered(connection: RedisLike, keys: Keys) -> list[Incarnation]:
    """All registered incarnations, by name, in three round trips.

    Raises:
        RedisUnavailable: nothing was read.
    """
    registered, reaping, time = connection.run(
        ("SMEMBERS", keys.inflight), ("SMEMBERS", keys.reaping), ("TIME",)
    )
    now = server_time(time)
    states: dict[bytes, State] = dict.fromkeys(registered, "alive")
    states |= dict.fromkeys(reaping, "being reaped")
    names = [text_of(name) for name in sorted(states)]
    if not names:
        return []
    beats, *claims = connection.run(
        ("HMGET", keys.alive, *names), *(("HGETALL", keys.claims(name)) for name in names)
    )
    all_held = _count_held(connection, keys, dict(zip(names, claims, strict=True)))
    return [
        _looked_at(name, states[member], beat, all_held[name], now)
        for member, name, beat in zip(sorted(states), names, beats, strict=True)
    ]


def _unregistered(each: Unregistered) -> Incarnation:
    is_known = layout_of(each.incarnation) == LAYOUT
    return Incarnation(
        name=each.incarnation,
        state="not registered" if is_known else "unknown layout",
        silent_for_s=None,
        beat=None,
        held=each.lists if is_known else {},
        tids=each.tids,
    )


def _looked_at(
    name: str, state: State, beat: bytes | None, held: Mapping[str, int], now: float
) -> Incarnation:
    sign = SignOfLife.parse(beat)
    silent_for_s = None if sign is None else max(now - sign.at, 0.0)
    # One from the future was given before the server's clock was set back; who lives gives the next within seconds.
    if state == "alive" and (sign is None or abs(now - sign.at) > sign.silent_after_s):
        state = "silent"
    if state != "alive" and layout_of(name) != LAYOUT:
        state = "unknown layout"
    return Incarnation(name=name, state=state, silent_for_s=silent_for_s, beat=beat, held=held)


def _count_held(
    connection: RedisLike, keys: Keys, claims: Mapping[str, list[bytes]]
) -> Mapping[str, Mapping[str, int]]:
    """Incarnation → queue → how many of its jobs are in flight; nothing for an unknown layout."""
    commands: list[Command] = []
    places: list[tuple[str, str]] = []
    for name, last_claims in claims.items():
        if layout_of(name) != LAYOUT:
            continue
        for tid, last in zip(last_claims[::2], last_claims[1::2], strict=True):
            for parity in (0, 1):
                commands.append(("LLEN", keys.inflight_list(name, text_of(tid), parity)))
                places.append((name, text_of(last.partition(b" ")[2])))
    held: dict[str, dict[str, int]] = {name: {} for name in claims}
    counts = connection.run(*commands) if commands else []
    for (name, queue), count in zip(places, counts, strict=True):
        if count:
            held[name][queue] = held[name].get(queue, 0) + count
    return held
