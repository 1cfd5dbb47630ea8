"""Reading the ledger of a schedule: which occurrences were enqueued, by which clock, and how their jobs ended.

It is written by the scripts that enqueue (push_tick.lua) and that settle (settle.lua).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import JobEnd

LEFT_OUT = ("paused", "skipped")
"""Attributes of an entry that say why nothing was enqueued."""

_PAGE = 1000
"""Missed ticks, of all schedules, that are read at once."""

_AT_ONCE: Final = 500
"""Ledgers that are read in one round trip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One occurrence that was delivered.

    Attributes:
        schedule: its name.
        at: its instant, epoch seconds.
        jids: of its jobs; empty if it was left out.
        by: which clock delivered it, such as `lambda:REQUEST`, `worker:IDENTITY`, `tick:REQUEST`.
        enqueued_at: epoch seconds.
        attempts: how often it was delivered, the first time included.
        ends: how its jobs ended, as far as they have; of a job that was retried by hand after its death, both.
        left_out: `paused` or `skipped` if nothing was enqueued because of that, else "".
    """

    schedule: str
    at: int
    jids: Sequence[str]
    by: str
    enqueued_at: float
    attempts: int = 1
    ends: Sequence[JobEnd] = ()
    left_out: str = ""

    def end_of(self, jid: str) -> JobEnd | None:
        """How a job of it ended last; None: it has not, or no worker reports that (docs/explanation/schedules.md)."""
        found = [end for end in self.ends if end.jid == jid]
        return max(found, key=lambda end: end.ended_at, default=None)

    @classmethod
    def from_document(
        cls, schedule: str, read: Mapping[str, Any], ends: Sequence[JobEnd], attempts: int
    ) -> "LedgerEntry":
        """An entry as the ledger has it, with the ends of its jobs."""
        return cls(
            schedule=schedule,
            at=int(read["at"]),
            jids=[str(jid) for jid in read.get("jids", [])],
            by=str(read.get("by", "")),
            enqueued_at=float(read["enqueued_at"]),
            attempts=attempts,
            ends=ends,
            left_out=next((word for word in LEFT_OUT if read.get(word)), ""),
        )

    @property
    def outcome(self) -> str:
        """How its jobs ended: `done`, `open` as long as one has no end, or the first other end; "" without jobs."""
        ends = [self.end_of(jid) for jid in self.jids]
        if not all(ends):
            return "open"
        outcomes = [end.outcome for end in ends if end]
        return next((each for each in outcomes if each != "done"), "done" if outcomes else "")

    @property
    def lateness_s(self) -> float:
        """Seconds from its instant to its enqueuing; below 0: it was placed ahead."""
        return self.enqueued_at - self.at


def known_schedules(connection: RedisLike, keys: Keys) -> set[str]:
    """Names of all schedules that are defined, or have a ledger.

    Raises:
        RedisUnavailable: nothing was read.
    """
    defined, with_ledger = connection.run(
        ("HKEYS", keys.schedules), ("ZRANGE", keys.ledgers, 0, -1)
    )
    return {text_of(name) for name in [*defined, *with_ledger]}


def read_missed(
    connection: RedisLike,
    keys: Keys,
    schedule: str,
    *,
    most: int,
    since: float | None = None,
    until: float | None = None,
) -> list[int]:
    """Instants of the newest ticks of a schedule that did not come in time, newest first.

    Some of them have come later, and are in the ledger, too. Arguments as `read_ledger`; raises as that.
    """
    low, high = _bounds(since, until)
    found: list[int] = []
    name, start = schedule.encode(), 0
    while len(found) < most:
        members: list[bytes] = connection.call(
            "ZRANGE", keys.missed, high, low, "BYSCORE", "REV", "LIMIT", start, _PAGE
        )
        for member in members:
            instant, _, whose = member.partition(b" ")
            if whose == name:
                found.append(int(instant))
        if len(members) < _PAGE:
            break
        start += _PAGE
    return found[:most]


def _bounds(since: float | None, until: float | None) -> tuple[str, str]:
    return "-inf" if since is None else repr(since), "+inf" if until is None else repr(until)


def read_ledger(
    connection: RedisLike,
    keys: Keys,
    schedule: str,
    *,
    most: int = 100,
    since: float | None = None,
    until: float | None = None,
) -> list[LedgerEntry]:
    """The newest entries of a schedule's ledger, newest first; see `read_ledgers`."""
    return read_ledgers(connection, keys, [schedule], most=most, since=since, until=until)[schedule]


def read_ledgers(
    connection: RedisLike,
    keys: Keys,
    schedules: Sequence[str],
    *,
    most: int,
    since: float | None = None,
    until: float | None = None,
) -> dict[str, list[LedgerEntry]]:
    """The newest entries of each ledger, newest first; unreadable ones are left out.

    Args:
        connection: to Redis.
        keys: names of keys.
        schedules: their names.
        most: how many of each, at most.
        since, until: epoch seconds, both included; None = any. What is placed ahead is later than now.

    Raises:
        RedisUnavailable: not all was read.
    """
    low, high = _bounds(since, until)
    newest = (high, low, "BYSCORE", "REV", "LIMIT", 0, most)
    ledgers: dict[str, list[LedgerEntry]] = {}
    for first in range(0, len(schedules), _AT_ONCE):
        names = schedules[first : first + _AT_ONCE]
        replies = connection.run(*(("ZRANGE", keys.ticks(name), *newest) for name in names))
        read = {name: _readable(texts) for name, texts in zip(names, replies, strict=True)}
        ledgers |= {name: [] for name in names}
        ledgers |= _with_ends(connection, keys, {name: each for name, each in read.items() if each})
    return ledgers


def _readable(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    found = map(json_text.read_object, texts)
    return [each for each in found if {"at", "enqueued_at"} <= each.keys()]


def _with_ends(
    connection: RedisLike, keys: Keys, read: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[LedgerEntry]]:
    if not read:
        return {}
    instants = {name: [str(each["at"]) for each in entries] for name, entries in read.items()}
    replies = connection.run(
        *(("HMGET", keys.attempts(name), *instants[name]) for name in read),
        *(
            ("ZRANGE", keys.ends(name), instants[name][-1], instants[name][0], "BYSCORE")
            for name in read
        ),
    )
    ledgers = {}
    for name, attempts, texts in zip(read, replies[: len(read)], replies[len(read) :], strict=True):
        ends: dict[int, list[JobEnd]] = {}
        for end in map(JobEnd.from_text, texts):
            ends.setdefault(end.at, []).append(end)
        ledgers[name] = [
            LedgerEntry.from_document(name, each, ends.get(each["at"], []), int(count or 1))
            for each, count in zip(read[name], attempts, strict=True)
        ]
    return ledgers
