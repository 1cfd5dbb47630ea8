"""Reading the ledger of a schedule: which occurrences were enqueued, by which clock, and how their jobs ended.

It is written by the scripts that enqueue (push_tick.lua) and that settle (settle.lua).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One occurrence that was enqueued.

    Attributes:
        schedule: its name.
        at: its instant, epoch seconds.
        jids: of its jobs.
        by: which clock delivered it, such as `lambda:REQUEST`, `worker:IDENTITY`, `tick:REQUEST`.
        enqueued_at: epoch seconds.
        attempts: how often it was delivered, the first time included.
        ends: how its jobs ended, as far as they have.
    """

    schedule: str
    at: int
    jids: Sequence[str]
    by: str
    enqueued_at: float
    attempts: int = 1
    ends: Sequence[JobEnd] = ()

    @property
    def lateness_s(self) -> float:
        """Seconds from its instant to its enqueuing; below 0: it was placed ahead."""
        return self.enqueued_at - self.at


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
    low = "-inf" if since is None else repr(since)
    high = "+inf" if until is None else repr(until)
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
        LedgerEntry(
            schedule=schedule,
            at=each["at"],
            jids=[str(jid) for jid in each["jids"]],
            by=str(each["by"]),
            enqueued_at=float(each["enqueued_at"]),
            attempts=int(count or 1),
            ends=ends.get(each["at"], []),
        )
        for each, count in zip(found, attempts, strict=True)
    ]
