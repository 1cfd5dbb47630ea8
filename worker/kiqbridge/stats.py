"""Counting jobs (protocol §11): counters per thread, merged and flushed at each beat."""

import time
from collections.abc import Sequence
from typing import Protocol

from kiqbridge.keys import Keys
from kiqbridge.redis_connection import Command, RedisConnection

DAY_TTL_S = 157_680_000
"""Daily counters are kept for five years."""


class Counting(Protocol):
    """Who counts; both numbers only grow."""

    processed: int
    failed: int


class Stats:
    """Flushes what was counted since the last flush."""

    def __init__(self, counters: Sequence[Counting], keys: Keys) -> None:
        self._counters = counters
        self._keys = keys
        self._flushed = {"processed": 0, "failed": 0}

    def flush(self, connection: RedisConnection, now: float) -> None:
        """INCRBY stat:processed, stat:failed and those of the UTC day of `now`, if any is new.

        Raises:
            RedisUnavailable, ReplyLost: the counts are kept for the next flush; a lost reply may
                count twice, as Sidekiq's does.
        """
        totals = {
            "processed": sum(counter.processed for counter in self._counters),
            "failed": sum(counter.failed for counter in self._counters),
        }
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        if totals == self._flushed:
            return
        commands: list[Command] = []
        for name, total in totals.items():
            new = total - self._flushed[name]
            commands += [
                ("INCRBY", self._keys.stat(name), new),
                ("INCRBY", self._keys.stat(name, day), new),
                ("EXPIRE", self._keys.stat(name, day), DAY_TTL_S),
            ]
        connection.run(*commands, repeatable=False)
        self._flushed = totals
