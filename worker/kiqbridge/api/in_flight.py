"""Jobs that workers of ours have claimed: which run, which were not begun yet, which are orphans; and suspects.

Ruby's workers keep no such lists (docs/reliability.md). What runs is known from heartbeats, so a job that began
within the last seconds may still be shown as not begun.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.processes import identity_of, parse_process, process_commands
from kiqbridge.api.works import parse_work
from kiqbridge.engine.inflight.incarnations import State, list_registered
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.keys import LAYOUT, layout_of
from kiqbridge.wire.names import text_of

MOST_OF_A_LIST: Final = 100
"""Jobs of one claim that are read: a chunk is smaller, unless jobs are very short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job that was claimed and not acknowledged.

    Attributes:
        process: identity of the process that claimed it.
        tid: of its thread.
        queue: where it was claimed.
        job: the job.
        owner: `alive`; `silent` = no sign of life for longer than it may: the job is given back if that lasts;
            `being reaped` = on its way back.
        begun: whether the last heartbeat showed it running.
        is_silent: whether its process gives no heartbeat: it may be running, although none showed it.
    """

    process: str
    tid: str
    queue: str
    job: JobRecord
    owner: State
    begun: bool
    is_silent: bool = False

    @property
    def is_orphan(self) -> bool:
        """Whether its owner seems dead."""
        return self.owner != "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """The jobs of a queue that wait to run alone: they ran when a worker died, or hung when one stopped.

    Attributes:
        queue: its name.
        count: how many there are.
        jobs: the first of them.
    """

    queue: str
    count: int
    jobs: Sequence[JobRecord]


def fetch_in_flight(
    operator: Operator | None = None, *, most: int = MOST_OF_A_LIST, only_silent: bool = False
) -> list[HeldJob]:
    """The jobs that Kiqbridge's workers hold, by process and thread, in six round trips.

    Args:
        operator: default `default_operator()`.
        most: jobs of a claim that are read, those that were to run first.
        only_silent: of workers alone whose heartbeat is late or has ended.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    pool, keys = whose.pool, whose.keys
    listed = list_registered(pool, keys)
    owners = {each.name: each.state for each in listed if layout_of(each.name) == LAYOUT}
    names = list(owners)
    if not names:
        return []
    owned = [(name, identity_of(name)) for name in names]
    replies = pool.run(
        *(("HGETALL", keys.claims(name)) for name in names),
        *(("HGETALL", keys.work(identity)) for _, identity in owned),
        *(command for _, identity in owned for command in process_commands(keys, identity)),
    )
    count = len(names)
    claims, works, beats = replies[:count], replies[count : 2 * count], replies[2 * count :]
    silent: dict[str, bool] = {}
    for (name, identity), reply, left_ms in zip(owned, beats[::2], beats[1::2], strict=True):
        process = parse_process(identity, reply, whose, left_ms)
        silent[name] = process is None or process.is_silent(time.time())
    places = [
        (name, text_of(tid), text_of(last.partition(b" ")[2]))
        for name, reply in zip(names, claims, strict=True)
        if silent[name] or not only_silent
        for tid, last in sorted(pairs_of(reply).items())
    ]
    running = {name: _running(name, reply) for name, reply in zip(names, works, strict=True)}
    lists = [
        (place, ("LRANGE", keys.inflight_list(place[0], place[1], parity), -most, -1))
        for place in places
        for parity in (0, 1)
    ]
    found = pool.run(*(command for _, command in lists)) if lists else []
    return [
        HeldJob(
            process=identity_of(name),
            tid=tid,
            queue=queue,
            job=(job := JobRecord(text, queue=queue)),
            owner=owners[name],
            begun=job.jid in running[name],
            is_silent=silent[name],
        )
        for ((name, tid, queue), _), texts in zip(lists, found, strict=True)
        for text in reversed(texts)
    ]


def fetch_suspects(operator: Operator | None = None, *, most: int = 100) -> list[Suspects]:
    """The first suspects of each queue that has any; two round trips.

    Args:
        operator: default `default_operator()`.
        most: jobs of a queue that are read.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    names = sorted(text_of(name) for name in whose.pool.call("SMEMBERS", whose.keys.queues))
    if not names:
        return []
    lists = [whose.keys.suspects(name) for name in names]
    replies = whose.pool.run(
        *(("LLEN", key) for key in lists), *(("LRANGE", key, -most, -1) for key in lists)
    )
    return [
        Suspects(
            queue=name, count=count, jobs=[JobRecord(text, queue=name) for text in reversed(texts)]
        )
        for name, count, texts in zip(
            names, replies[: len(names)], replies[len(names) :], strict=True
        )
        if count
    ]


def claiming_processes(operator: Operator) -> set[str]:
    """The identities of our workers that claim: what they run is known from their lists, and from no heartbeat.

    With basic fetch a worker claims nothing.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    pool, keys = operator.pool, operator.keys
    names = [text_of(name) for name in pool.call("SMEMBERS", keys.inflight)]
    counts = pool.run(*(("HLEN", keys.claims(name)) for name in names)) if names else []
    return {identity_of(name) for name, count in zip(names, counts, strict=True) if count}


def _running(incarnation: str, reply: Sequence[bytes]) -> set[str]:
    works = (parse_work(incarnation, text_of(tid), text) for tid, text in pairs_of(reply).items())
    return {work.job.jid for work in works if work is not None}
