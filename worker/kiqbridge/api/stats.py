"""How much there is of everything, in one round trip and one for the queues (protocol §11, §22)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.store.replies import count_in
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.names import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """One queue: its size, and seconds for which its oldest job has waited."""

    size: int
    latency: float


class Stats:
    """Counts as they were when it was made.

    Attributes:
        processed, failed: executions ever, and those that failed.
        scheduled_size, retry_size, dead_size: members of the sets.
        enqueued: jobs that wait in all queues.
        queues: name → size and latency, the longest first.
        processes_size: processes that were registered.
        workers_size: jobs that run now.
        default_queue_latency: seconds for which the oldest job of `default` has waited.
        fetched_at: epoch seconds.
    """

    def __init__(self, operator: Operator | None = None) -> None:
        self._operator = whose = operator or default_operator()
        self.fetched_at = time.time()
        keys, pool = whose.keys, whose.pool
        processed, failed, scheduled, retry, dead, processes, queues = pool.run(
            ("GET", keys.stat("processed")),
            ("GET", keys.stat("failed")),
            ("ZCARD", keys.schedule),
            ("ZCARD", keys.retry),
            ("ZCARD", keys.dead),
            ("SMEMBERS", keys.processes),
            ("SMEMBERS", keys.queues),
        )
        self.processed, self.failed = count_in(processed), count_in(failed)
        self.scheduled_size, self.retry_size, self.dead_size = scheduled, retry, dead
        self.processes_size = len(processes)
        names = sorted(text_of(name) for name in queues)
        commands = [
            *(
                command
                for key in map(keys.queue, names)
                for command in (("LLEN", key), ("LINDEX", key, -1))
            ),
            *(("HGET", keys.process(text_of(each)), "busy") for each in processes),
        ]
        replies = pool.run(*commands) if commands else []
        busy = replies[2 * len(names) :]
        self.workers_size = sum(map(count_in, busy))
        found = {
            name: QueueStats(
                size=size, latency=JobRecord(text).latency(self.fetched_at) if text else 0.0
            )
            for name, size, text in zip(names, replies[::2], replies[1::2], strict=False)
        }
        self.queues: Mapping[str, QueueStats] = dict(
            sorted(found.items(), key=lambda each: (-each[1].size, each[0]))
        )
        self.enqueued = sum(each.size for each in found.values())
        default = self.queues.get("default")
        self.default_queue_latency = default.latency if default else 0.0

    def __repr__(self) -> str:
        return f"<Stats processed={self.processed} failed={self.failed} enqueued={self.enqueued}>"

    def history(self, days: int = 30, *, until: date | None = None) -> "History":
        """What was processed and failed on each UTC day, the last day first (§11)."""
        return fetch_history(days, until=until, operator=self._operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """UTC day → executions, and those that failed; the last day first."""

    processed: Mapping[date, int]
    failed: Mapping[date, int]


def fetch_history(
    days: int = 30, *, until: date | None = None, operator: Operator | None = None
) -> History:
    """What was processed and failed on each of the last days, by two MGET.

    Args:
        days: how many, up to five years.
        until: the last one, in UTC; default today.
        operator: whose.
    """
    whose = operator or default_operator()
    last = until or datetime.now(UTC).date()
    dates = [last - timedelta(days=back) for back in range(days)]
    commands = [
        ("MGET", *(whose.keys.stat(name, each.isoformat()) for each in dates))
        for name in ("processed", "failed")
    ]
    processed, failed = (
        dict(zip(dates, map(count_in, counts), strict=True)) for counts in whose.pool.run(*commands)
    )
    return History(processed=processed, failed=failed)
