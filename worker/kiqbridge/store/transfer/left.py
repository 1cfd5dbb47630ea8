"""What an export leaves on its server, by name and number."""

from collections.abc import Collection, Mapping
from typing import Final

from kiqbridge.store.key_scan import scan_keys
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.transfer.form import Place
from kiqbridge.store.transfer.reading import all_places, size_of
from kiqbridge.wire.keys import TYPES, Keys

_WHOLE: Final = {
    "locks": "locks of unique jobs",
    "flow_spans": "spans of debounced and throttled jobs",
    "schedules": "schedules",
    "schedule_states": "pauses and skips of schedules",
    "ledgers": "ledgers of schedules",
    "guards": "guards against duplicates",
    "pauses": "pauses",
    "alerts": "fields of alerts",
    "cron_jobs": "schedules of sidekiq-cron",
}
"""Attribute of `Keys` → what its members are."""

_BY_PREFIX: Final = {"kb:limit:": "limiters", "it-": "states of iterable jobs"}
"""Beginning of keys → what each of them is."""

_SIZE: Final = {"set": "SCARD", "zset": "ZCARD", "hash": "HLEN", "list": "LLEN"}


def count_left(pool: RedisPool, keys: Keys, exported: Collection[Place]) -> Mapping[str, int]:
    """What is there besides what was exported → how many, without what there is none of.

    What is about this server or its workers (processes, signs of life, counters, the audit log) does not count.
    """
    found = {
        str(place): size_of(pool, keys, place)
        for place in all_places(pool, keys)
        if place not in exported
    }
    lists = [key for page in scan_keys(pool, f"{keys.prefix}kb:inflight:") for key in page]
    held = pool.run(*(("LLEN", key) for key in lists)) if lists else []
    found["jobs that workers hold"] = sum(held)
    commands = [(_SIZE[TYPES[name]], getattr(keys, name)) for name in _WHOLE]
    found |= dict(zip(_WHOLE.values(), pool.run(*commands), strict=True))
    for prefix, what in _BY_PREFIX.items():
        found[what] = sum(map(len, scan_keys(pool, keys.prefix + prefix)))
    return {what: count for what, count in found.items() if count}
