"""What was enqueued before: the jid under a guard, and the jids in a schedule's ledger. Nothing is written."""

from collections.abc import Sequence

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of


def find_jids(redis: RedisPool, keys: Keys, guards: Sequence[str], now: float) -> list[str | None]:
    """For each guard the jid of its job; None if there is none, or it is over at `now`, or the guard is ""."""
    named = [guard for guard in guards if guard]
    if not named:
        return [None] * len(guards)
    # Commands that a push needs as well: its user in Redis may have no others (docs/security.md).
    values = iter(redis.run(*(["HGET", keys.guards, guard] for guard in named)))
    return [_jid(next(values), now) if guard else None for guard in guards]


def find_tick(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> list[str] | None:
    """The jids that were enqueued for one occurrence of a schedule, None = it is not in the ledger."""
    entry = tick_entry(redis, keys, schedule, instant)
    return None if entry is None else [str(jid) for jid in json_text.loads(entry)["jids"]]


def tick_entry(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> bytes | None:
    """What the ledger of a schedule has of one occurrence, None = nothing."""
    entries = redis.call("ZRANGEBYSCORE", keys.ticks(schedule), instant, instant, "LIMIT", 0, 1)
    return entries[0] if entries else None


def _jid(value: bytes | None, now: float) -> str | None:
    until, _, jid = (value or b"").partition(b" ")
    return text_of(jid) if jid and float(until) > now else None
