"""What an export leaves on its server, by name and number."""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final

from kiqbridge.features.transfer.form import Place
from kiqbridge.features.transfer.reading import all_places, key_of
from kiqbridge.store.key_scan import scan_keys
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

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

_SIZE: Final = {b"set": "SCARD", b"zset": "ZCARD", b"hash": "HLEN", b"list": "LLEN"}


def count_left(pool: RedisPool, keys: Keys, exported: Collection[Place]) -> Mapping[str, int]:
    """What is there besides what was exported → how many, without what there is none of.

    What is about this server or its workers (processes, signs of life, counters, the audit log) does not count.
    """
    places = [place for place in all_places(pool, keys) if place not in exported]
    found = {str(place): _size(pool, key_of(keys, place)) for place in places}
    lists = chain.from_iterable(scan_keys(pool, f"{keys.prefix}kb:inflight:"))
    found["jobs that workers hold"] = sum(_size(pool, key) for key in lists)
    found |= {what: _size(pool, getattr(keys, name)) for name, what in _WHOLE.items()}
    for prefix, what in _BY_PREFIX.items():
        found[what] = sum(map(len, scan_keys(pool, keys.prefix + prefix)))
    return {what: count for what, count in found.items() if count}


def _size(pool: RedisPool, key: str) -> int:
    """Members of a key of any type, so that one that something else has written ends no export."""
    command = _SIZE.get(pool.call("TYPE", key))
    return 0 if command is None else int(pool.call(command, key))
