"""What waits for a worker: queues with depth and latency, jobs that are due, and how much of it is demand.

Demand is what scaling needs: jobs that wait, are in flight, or are due in `retry` and `schedule` and wait for
a poller. A paused queue is no demand, since no worker would take its jobs; nor is a queue that is not of the
scaled fleet.

What is read is bounded: names of queues, one job of each, and counts.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kiqbridge.errors import RedisRefused
from kiqbridge.monitor.fleet import Fleet
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown, text_of
from kiqbridge.wire.raw_job import waiting_since

logger = logging.getLogger(__name__)

MAX_QUEUES = 1000
"""More are left out, and a line of the log says so."""

JOBS_AT_ONCE = 20
"""Oldest jobs that are read in one round trip: each may have 10 MB."""

DUE_FOR_S = 60.0
"""While any process lives its poller moves what is due within seconds: only what is due for longer is demand."""


class Queue(NamedTuple):
    """A queue as it was found.

    Attributes:
        name: without prefix.
        depth: how many jobs wait, those that shall run alone (suspects) included.
        latency_s: for how long its oldest job has been waiting, in seconds; 0 = none waits.
        is_paused: whether workers take nothing from it.
    """

    name: str
    depth: int
    latency_s: float
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits, outside of workers.

    Attributes:
        queues: by name.
        retries, scheduled, dead: sizes of those sets.
        due: jobs of `retry` and `schedule`, and reports for Step Functions, whose time has come.
        overdue: those of them that have been due for longer than a poller takes.
        at: when it was read, epoch seconds on the clock of Redis.
    """

    queues: Sequence[Queue]
    retries: int
    scheduled: int
    dead: int
    due: int
    overdue: int
    at: float

    def demand(self, fleet: Fleet, served: Collection[str] = ()) -> int:
        """Jobs for which the scaled fleet is needed.

        Args:
            fleet: who lives.
            served: queues of the scaled fleet; empty = all.
        """
        waiting = sum(
            each.depth
            for each in self.queues
            if not each.is_paused and (not served or each.name in served)
        )
        return waiting + fleet.in_flight + (self.overdue if fleet.living else self.due)

    def unserved(self, fleet: Fleet) -> Sequence[str]:
        """Queues in which jobs wait and that no living process serves, by name."""
        served = {name for each in fleet.living if not each.is_quiet for name in each.queues}
        return [
            each.name
            for each in self.queues
            if each.depth and not each.is_paused and each.name not in served
        ]

    def is_silent(self, fleet: Fleet) -> bool:
        """Whether something waits for which nobody lives: in a queue, due, or held by dead workers."""
        return bool(
            self.unserved(fleet)
            or (self.due and not fleet.living)
            or (fleet.in_flight and not fleet.has_leases)
        )


def read_backlog(connection: RedisConnection, keys: Keys, served: Collection[str] = ()) -> Backlog:
    """What waits now, by the clock of Redis.

    Args:
        connection: its own.
        keys: the namespace.
        served: queues that are looked at also if Redis does not list them: one that was cleared is not
            listed, and a job of it may come back.

    Raises:
        RedisUnavailable: nothing was read.
    """
    names = list(dict.fromkeys([*sorted(served), *_queue_names(connection, keys)]))
    now = server_time(connection.call("TIME"))
    due_sets = (keys.retry, keys.schedule, keys.flow_ends, keys.task_reports)
    retries, scheduled, dead, paused, *counts = connection.run(
        ("ZCARD", keys.retry),
        ("ZCARD", keys.schedule),
        ("ZCARD", keys.dead),
        ("SMEMBERS", keys.paused),
        *(("ZCOUNT", key, "-inf", repr(now)) for key in due_sets),
        *(("ZCOUNT", key, "-inf", repr(now - DUE_FOR_S)) for key in due_sets),
    )
    pauses = {text_of(name) for name in paused}
    depths = _depths(connection, keys, names)
    latencies = _latencies(connection, keys, [name for name in depths if depths[name]], now)
    return Backlog(
        queues=[
            Queue(name, depth, latencies.get(name, 0.0), name in pauses)
            for name, depth in depths.items()
        ],
        retries=retries,
        scheduled=scheduled,
        dead=dead,
        due=sum(counts[: len(due_sets)]),
        overdue=sum(counts[len(due_sets) :]),
        at=now,
    )


def _queue_names(connection: RedisConnection, keys: Keys) -> list[str]:
    """Names, at most `MAX_QUEUES`."""
    names: set[str] = set()
    cursor = b"0"
    while True:
        cursor, members = connection.call("SSCAN", keys.queues, cursor, "COUNT", MAX_QUEUES)
        names.update(text_of(name) for name in members)
        if cursor == b"0" or len(names) > MAX_QUEUES:
            break
    if len(names) > MAX_QUEUES:
        logger.warning(
            "there are more than %d queues, and the others are not looked at: their jobs are no demand; delete "
            "what is not used from %s",
            MAX_QUEUES,
            keys.queues,
        )
    return sorted(names)[:MAX_QUEUES]


def _depths(connection: RedisConnection, keys: Keys, names: Sequence[str]) -> dict[str, int]:
    """Queue → how many jobs wait in it; without those whose key is of another type."""
    if not names:
        return {}
    try:
        replies = connection.run(
            *(("LLEN", key) for name in names for key in (keys.queue(name), keys.suspects(name)))
        )
    except RedisRefused as error:
        if len(names) == 1:
            logger.warning("queue %s cannot be read, and is left out: %s", shown(names[0]), error)
            return {}
        return {key: n for name in names for key, n in _depths(connection, keys, [name]).items()}
    lengths = zip(replies[::2], replies[1::2], strict=True)
    return {name: sum(length) for name, length in zip(names, lengths, strict=True)}


def _latencies(
    connection: RedisConnection, keys: Keys, names: Sequence[str], now: float
) -> dict[str, float]:
    """Queue → age of the job at its consuming end, in seconds; without those whose job does not say it."""
    found: dict[str, float] = {}
    for start in range(0, len(names), JOBS_AT_ONCE):
        some = names[start : start + JOBS_AT_ONCE]
        jobs = connection.run(*(("LINDEX", keys.queue(name), "-1") for name in some))
        for name, job in zip(some, jobs, strict=True):
            since = None if job is None else waiting_since(job)
            if since is not None:
                found[name] = max(now - since, 0.0)
    return found
