"""Counting jobs (protocol §11): counters per thread, merged and flushed at each beat."""

import time
from collections.abc import Sequence
from typing import Protocol

from kiqbridge import scripts
from kiqbridge.keys import Keys
from kiqbridge.redis_connection import RedisConnection

DAY_TTL_S = 157_680_000
"""Daily counters are kept for five years."""

_REMEMBER_S = 28_800
"""A call that was held up by the network for longer than that may count twice."""

_FLUSH = scripts.load("flush_stats")


class Counting(Protocol):
    """Who counts; both numbers only grow."""

    processed: int
    failed: int


class Stats:
    """Flushes what was counted since the last flush; `identity` is the process' own."""

    def __init__(self, counters: Sequence[Counting], keys: Keys, identity: str) -> None:
        self._counters = counters
        self._keys = keys
        self._guard = keys.stats_flush(identity)
        self._flushed = {"processed": 0, "failed": 0}
        self._number = 1
        self._waiting: tuple[dict[str, int], str] | None = None

    def flush(self, connection: RedisConnection, now: float) -> None:
        """INCRBY stat:processed, stat:failed and those of the UTC day of `now`, if any is new.

        Raises:
            RedisUnavailable, RedisRefused: nothing is lost, and nothing will be counted twice; the
                next flush does it.
        """
        self._send(connection)
        totals = {
            "processed": sum(counter.processed for counter in self._counters),
            "failed": sum(counter.failed for counter in self._counters),
        }
        if totals != self._flushed:
            new = {name: total - self._flushed[name] for name, total in totals.items()}
            # From now on as it is: what may have arrived is repeated under its number, not added to.
            self._waiting = new, time.strftime("%Y-%m-%d", time.gmtime(now))
            self._flushed = totals
            self._send(connection)

    def _send(self, connection: RedisConnection) -> None:
        if self._waiting is None:
            return
        new, day = self._waiting
        keys, args = [self._guard], [str(self._number), str(_REMEMBER_S)]
        for name, count in new.items():
            keys += [self._keys.stat(name), self._keys.stat(name, day)]
            args += [str(count), "", str(count), str(DAY_TTL_S)]
        connection.script(_FLUSH, keys, args)
        self._waiting = None
        self._number += 1
