"""The last firing of many schedules, in a few round trips; ledger.py reads more of one."""

from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.clocks.ledger import LEFT_OUT, LedgerEntry
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

_AT_ONCE: Final = 500


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
    for part in _parts(schedules):
        replies = connection.run(
            *(
                ("ZRANGE", keys.ticks(name), repr(now), "-inf", "BYSCORE", "REV", "LIMIT", 0, 1)
                for name in part
            )
        )
        found |= {
            name: json_text.loads(texts[0])
            for name, texts in zip(part, replies, strict=True)
            if texts
        }
    return _with_ends(connection, keys, found)


def _with_ends(
    connection: RedisConnection | RedisPool, keys: Keys, found: dict[str, dict[str, Any]]
) -> dict[str, LedgerEntry]:
    entries = {}
    for part in _parts(list(found)):
        replies = connection.run(
            *(
                ("ZRANGE", keys.ends(name), found[name]["at"], found[name]["at"], "BYSCORE")
                for name in part
            )
        )
        for name, texts in zip(part, replies, strict=True):
            each = found[name]
            entries[name] = LedgerEntry(
                schedule=name,
                at=int(each["at"]),
                jids=[str(jid) for jid in each["jids"]],
                by=str(each["by"]),
                enqueued_at=float(each["enqueued_at"]),
                ends=[JobEnd.from_text(text) for text in texts],
                left_out=next((word for word in LEFT_OUT if each.get(word)), ""),
            )
    return entries


def _parts(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[place : place + _AT_ONCE] for place in range(0, len(names), _AT_ONCE)]
