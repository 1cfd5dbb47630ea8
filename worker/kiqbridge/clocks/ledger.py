"""Reading the ledger of a schedule: which occurrences were enqueued, by which clock, and how their jobs ended.

It is written by the scripts that enqueue (push_tick.lua) and that settle (settle.lua).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
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
        """How a job of it ended last; None: it has not, or nobody reports that (docs/schedules.md)."""
        found = [end for end in self.ends if end.jid == jid]
        return max(found, key=lambda end: end.ended_at, default=None)

    @classmethod
    def from_document(
        cls, schedule: str, read: dict[str, Any], ends: Sequence[JobEnd], attempts: int = 1
    ) -> "LedgerEntry":
        """An entry as the ledger has it, with the ends of its jobs."""
        return cls(
            schedule=schedule,
            at=int(read["at"]),
            jids=[str(jid) for jid in read["jids"]],
            by=str(read["by"]),
            enqueued_at=float(read["enqueued_at"]),
            attempts=attempts,
            ends=ends,
            left_out=next((word for word in LEFT_OUT if read.get(word)), ""),
        )

    @property
    def lateness_s(self) -> float:
        """Seconds from its instant to its enqueuing; below 0: it was placed ahead."""
        return self.enqueued_at - self.at


def known_schedules(connection: RedisConnection | RedisPool, keys: Keys) -> set[str]:
    """Names of all schedules that are defined, or have a ledger.

    Raises:
        RedisUnavailable: nothing was read.
    """
    defined, with_ledger = connection.run(
        ("HKEYS", keys.schedules), ("ZRANGE", keys.ledgers, 0, -1)
    )
    return {text_of(name) for name in [*defined, *with_ledger]}


def read_missed(
    connection: RedisConnection | RedisPool,
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
    connection: RedisConnection | RedisPool,
    keys: Keys,
    schedule: str,
    *,
    most: int = 100,
    since: float | None = None,
    until: float | None = None,
) -> list[LedgerEntry]:
    """The newest entries of a schedule's ledger, newest first.

    Args:
        connection: to Redis.
        keys: names of keys.
        schedule: its name.
        most: how many, at most.
        since, until: epoch seconds, both included; None = any.

    Raises:
        RedisUnavailable: nothing was read.
    """
    low, high = _bounds(since, until)
    texts = connection.call(
        "ZRANGE", keys.ticks(schedule), high, low, "BYSCORE", "REV", "LIMIT", 0, most
    )
    found: list[dict[str, Any]] = [json_text.loads(text) for text in texts]
    if not found:
        return []
    instants = [str(each["at"]) for each in found]
    attempts = connection.call("HMGET", keys.attempts(schedule), *instants)
    texts = connection.call("ZRANGE", keys.ends(schedule), instants[-1], instants[0], "BYSCORE")
    ends: dict[int, list[JobEnd]] = {}
    for text in texts:
        end = JobEnd.from_text(text)
        ends.setdefault(end.at, []).append(end)
    return [
        LedgerEntry.from_document(schedule, each, ends.get(each["at"], []), int(count or 1))
        for each, count in zip(found, attempts, strict=True)
    ]


def read_last_entries(
    connection: RedisConnection | RedisPool, keys: Keys, schedules: Sequence[str], now: float
) -> dict[str, LedgerEntry]:
    """The newest entry of each ledger that is not later than `now`; what is placed ahead is.

    Args:
        connection: to Redis.
        keys: names of keys.
        schedules: names.
        now: epoch seconds.

    Returns:
        Entries by the name of the schedule; one that has not fired has none. `attempts` is not read.

    Raises:
        RedisUnavailable: not all was read.
    """
    found: dict[str, dict[str, Any]] = {}
    newest = (repr(now), "-inf", "BYSCORE", "REV", "LIMIT", 0, 1)
    for names in _parts(schedules):
        last = connection.run(*(("ZRANGE", keys.ticks(name), *newest) for name in names))
        found |= {
            name: json_text.loads(texts[0])
            for name, texts in zip(names, last, strict=True)
            if texts
        }
    entries = {}
    for names in _parts(list(found)):
        of_jobs = connection.run(
            *(
                ("ZRANGE", keys.ends(name), found[name]["at"], found[name]["at"], "BYSCORE")
                for name in names
            )
        )
        for name, texts in zip(names, of_jobs, strict=True):
            ends = [JobEnd.from_text(text) for text in texts]
            entries[name] = LedgerEntry.from_document(name, found[name], ends)
    return entries


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[place : place + _AT_ONCE] for place in range(0, len(names), _AT_ONCE))
