"""What a verdict is made of (verdict.py): the state of queues, processes, schedules and server, in two round trips.

What the server refuses is left out and named in `Facts.refused`, so that one key of a wrong type, or a right
that is missing, hides nothing else.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from kiqbridge.api.audit import killed_since
from kiqbridge.api.counts import Counts
from kiqbridge.api.in_flight import HeldJob, fetch_in_flight
from kiqbridge.api.metrics import MetricReading
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.processes import (
    RETRY,
    Process,
    owners_of,
    parse_process,
    process_commands,
    unknown_classes,
)
from kiqbridge.api.verdict import LIMITS, Limits
from kiqbridge.api.works import Work, parse_work
from kiqbridge.engine.inflight.incarnations import Incarnation, SignOfLife, list_registered
from kiqbridge.errors import RedisRefused
from kiqbridge.store.pauses import Pause, pauses_of, server_time
from kiqbridge.store.replies import pairs_of
from kiqbridge.store.server_check import is_clustered, parse_info
from kiqbridge.store.server_memory import Memory, parse_memory
from kiqbridge.wire.dead_bounds import (
    DEFAULT_BOUNDS,
    FIELD,
    KEPT_S,
    DeadBounds,
    dropped_in,
    fleet_bounds,
)
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.keys import hash_tag
from kiqbridge.wire.names import text_of

LATELY_S: Final = 3600.0
"""Deaths and deployments are looked for so far back."""

MISSED_S: Final = 86_400.0
"""Ticks that did not come are counted so far back."""

MOST_HELD: Final = 3
"""Jobs of a claim of a silent worker."""
MOST_MISSED: Final = 100
NEWEST_DEAD: Final = 20
_NEWEST: Final = ("BYSCORE", "REV", "LIMIT")
MEASURED_MINUTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A queue.

    Attributes:
        name: as jobs name it.
        size: jobs that wait.
        latency_s: seconds for which the oldest one has waited; negative if its `enqueued_at` is in the future.
        suspects: jobs of it that are to run alone, since they may have killed their process.
        is_readable: whether its oldest job is a JSON object.
    """

    name: str
    size: int
    latency_s: float
    suspects: int = 0
    is_readable: bool = True

    @property
    def depth(self) -> int:
        """Jobs that wait, those that are to run alone included."""
        return self.size + self.suspects


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """A sorted set of jobs that become due.

    Attributes:
        size: members.
        due: how many of them are due.
        late_s: seconds for which the first one has been due; 0 if none is.
    """

    size: int = 0
    due: int = 0
    late_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedFact:
    """A tick that did not come in time: its schedule, its instant, and whether it came later."""

    schedule: str
    at: int
    came_later: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state at one moment.

    Attributes:
        at: epoch seconds, by the clock of Redis.
        queues: by name.
        processes: those that live, of Python and Ruby.
        gone: how many more are registered, whose heartbeat has ended.
        work: the jobs that run, the longest running first.
        pauses: queues and classes that are paused.
        retry, schedule: what becomes due.
        dead, dead_lately: members of the dead set, and those that died within `LATELY_S`.
        killed_lately: how many of these operators have killed.
        died_of: class and error → how many of the newest of these.
        dead_dropped: those that were dropped within a day, since the set was full.
        dead_bounds: those of the dead set, by what the living workers publish.
        missed: ticks of the last day that did not come in time, newest first.
        leases: workers of ours that give signs of life to each other.
        orphans: leases of workers that are silent or fenced, with the jobs they hold.
        held: the first jobs held by each worker of ours whose heartbeat is late or has ended: it was killed, or is stuck.
        memory: of the server; None if it does not answer that.
        is_cluster: whether it is in cluster mode, and the namespace keeps keys in no single slot.
        ruby_in_cluster: identities of Ruby processes, if it is in cluster mode, where they cannot work.
        classes: what each class did in the last five minutes.
        deployed: marked deployments of the last hour: minute (epoch seconds) → label.
        unknown: `CLASS in PLACE` → jobs of a class that no process declares which may take them. Looked at are the
            next job of each queue and the next retry; the doctor looks at more.
        refused: questions that the server refused, in words.
        limits: by which they are judged.
    """

    at: float
    queues: Sequence[QueueFacts] = ()
    processes: Sequence[Process] = ()
    gone: int = 0
    work: Sequence[Work] = ()
    pauses: Sequence[Pause] = ()
    retry: SetFacts = SetFacts()
    schedule: SetFacts = SetFacts()
    dead: int = 0
    dead_lately: int = 0
    killed_lately: int = 0
    died_of: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dead_dropped: int = 0
    dead_bounds: DeadBounds = DEFAULT_BOUNDS
    missed: Sequence[MissedFact] = ()
    leases: int = 0
    orphans: Sequence[Incarnation] = ()
    held: Sequence[HeldJob] = ()
    memory: Memory | None = None
    is_cluster: bool = False
    ruby_in_cluster: Sequence[str] = ()
    classes: Mapping[str, Counts] = field(default_factory=dict)
    deployed: Mapping[float, str] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[str] = ()
    limits: Limits = LIMITS


def fetch_facts(operator: Operator | None = None, *, queues: Iterable[str] = ()) -> Facts:
    """The state now: two round trips, one more if a job has died lately, and eight more if a worker of ours is silent.

    Args:
        operator: default `default_operator()`.
        queues: names that are looked at also if Redis does not list them.

    Raises:
        RedisUnavailable: nothing was read.
    """
    return _Fetching(operator or default_operator(), queues).fetch()


class _Fetching:
    """The two round trips: first what has a fixed name, then what was named there."""

    def __init__(self, operator: Operator, queues: Iterable[str]) -> None:
        self._operator = operator
        self._queues = queues
        self._pool = operator.pool
        self._keys = operator.keys
        self._refused: dict[str, None] = {}
        self._reading = MetricReading(operator)

    def fetch(self) -> Facts:
        keys, begun = self._keys, time.time()
        newest = int(begun) // 60 * 60
        for back in range(MEASURED_MINUTES):
            self._reading.ask_minute(float(newest - 60 * back))
        self._reading.ask_marks((begun - LATELY_S, begun))
        first = self._ask(
            ("TIME",),
            ("SMEMBERS", keys.queues),
            ("SMEMBERS", keys.processes),
            ("SMEMBERS", keys.paused),
            ("HGETALL", keys.pauses),
            ("ZRANGE", keys.missed, "+inf", begun - MISSED_S, *_NEWEST, 0, MOST_MISSED),
            ("ZCARD", keys.dead),
            ("ZCOUNT", keys.dead, begun - LATELY_S, "+inf"),
            ("ZRANGE", keys.dead_trimmed, begun - KEPT_S, "+inf", "BYSCORE"),
            *_set_commands(keys.retry, begun),
            *_set_commands(keys.schedule, begun),
            ("SMEMBERS", keys.inflight),
            ("SMEMBERS", keys.reaping),
            ("HGETALL", keys.alive),
            ("INFO", "memory"),
            ("INFO", "cluster"),
            *self._reading.commands,
        )
        clock, queues, processes, paused, pauses, missed, dead, dead_lately, notes, *rest = first
        sets, measured = rest[:6], rest[11:]
        registered, reaping, alive, memory, cluster = rest[6:11]
        now = server_time(clock) if clock else begun
        retries = [(RETRY, JobRecord(sets[2][0]))] if sets[2] else []
        died = min(dead_lately or 0, NEWEST_DEAD)
        found = self._named(now, queues or [], processes or [], missed or [], retries, died=died)
        self._reading.processes = found["processes"]
        self._reading.take(measured)
        leases, orphans = self._leases(now, registered or [], reaping or [], alive or [])
        beating = {each.identity for each in found["processes"] if not each.is_silent(now)}
        is_silent = bool(owners_of(map(text_of, registered or [])) - beating)
        clustered = bool(cluster) and is_clustered(parse_info(cluster))
        return Facts(
            at=now,
            **found,
            pauses=pauses_of(pairs_of(pauses or []), paused or [], now),
            retry=_set_facts(sets[:3], now),
            schedule=_set_facts(sets[3:], now),
            dead=dead or 0,
            dead_lately=dead_lately or 0,
            killed_lately=killed_since(self._operator, begun - LATELY_S) if dead_lately else 0,
            dead_dropped=dropped_in(notes or []),
            dead_bounds=fleet_bounds(each.fields.get(FIELD) for each in found["processes"]),
            leases=leases,
            orphans=orphans,
            held=self._held() if is_silent else (),
            memory=parse_memory(memory),
            is_cluster=clustered and not hash_tag(keys.prefix),
            ruby_in_cluster=[
                each.identity for each in found["processes"] if clustered and not each.is_ours
            ],
            classes=self._reading.totals(),
            deployed=self._reading.marks_within(begun - LATELY_S, begun),
            refused=list(self._refused),
        )

    def _named(
        self,
        now: float,
        queues: Sequence[bytes],
        identities: Sequence[bytes],
        missed: Sequence[bytes],
        retries: Sequence[tuple[str, JobRecord]],
        *,
        died: int,
    ) -> dict[str, Any]:
        """What has a name of its own: each queue, process and schedule with missed ticks."""
        keys = self._keys
        names = sorted({*self._queues, *map(text_of, queues)})
        living = sorted(text_of(name) for name in identities)
        ticks = [_tick(member) for member in missed]
        found = self._ask(
            *(
                command
                for name in names
                for command in (
                    ("LLEN", keys.queue(name)),
                    ("LINDEX", keys.queue(name), -1),
                    ("LLEN", keys.suspects(name)),
                )
            ),
            *(
                command
                for name in living
                for command in (
                    *process_commands(keys, name),
                    ("HGETALL", keys.work(name)),
                    ("HGETALL", keys.workers(name)),
                )
            ),
            *([("ZREVRANGE", keys.dead, 0, died - 1)] if died else ()),
            *(("ZCOUNT", keys.ticks(name), at, at) for at, name in ticks),
        )
        replies = iter(found)
        of_queues: list[Any] = [(name, *islice(replies, 3)) for name in names]
        beats: list[Any] = [(name, *islice(replies, 4)) for name in living]
        dead = [JobRecord(text) for text in (next(replies) if died else None) or ()]
        came = [
            MissedFact(schedule=name, at=at, came_later=bool(count))
            for (at, name), count in zip(ticks, replies, strict=True)
        ]
        read = [
            parse_process(name, reply or [], self._operator, left_ms)
            for name, reply, left_ms, *_ in beats
        ]
        processes = [process for process in read if process is not None]
        works = [
            parse_work(name, text_of(tid), text)
            for name, _, _, new, old in beats
            for tid, text in pairs_of(new or old or []).items()
        ]
        jobs = [
            (f"queue {name}", JobRecord(oldest, queue=name))
            for name, _, oldest, _ in of_queues
            if oldest is not None
        ]
        return {
            "queues": [_queue(now, *each) for each in of_queues],
            "processes": processes,
            "gone": len(living) - len(processes),
            "unknown": unknown_classes([*retries, *jobs], processes),
            "work": sorted(filter(None, works), key=lambda each: each.run_at),
            "missed": came,
            "died_of": Counter((each.display_class, each.error_class) for each in dead),
        }

    def _leases(
        self, now: float, registered: Sequence[bytes], reaping: Sequence[bytes], alive: Any
    ) -> tuple[int, Sequence[Incarnation]]:
        """How many workers give signs of life, and what those hold that do not."""
        beats = pairs_of(alive)
        signs = {name: SignOfLife.parse(beats.get(name)) for name in registered}
        living = [
            name
            for name, sign in signs.items()
            if sign is not None and now - sign.at <= sign.silent_after_s
        ]
        if len(living) == len(registered) and not reaping:
            return len(living), []
        try:
            found = list_registered(self._pool, self._keys)
        except RedisRefused as error:
            self._refused[str(error)] = None
            return len(living), []
        return len(living), [
            each for each in found if each.state in ("silent", "being reaped") and each.held_jobs
        ]

    def _held(self) -> Sequence[HeldJob]:
        try:
            return fetch_in_flight(self._operator, most=MOST_HELD, only_silent=True)
        except RedisRefused as error:
            self._refused[str(error)] = None
            return ()

    def _ask(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Replies to commands, None for one that the server refuses."""
        if not commands:
            return []
        try:
            return self._pool.run(*commands)
        except RedisRefused:  # which one, is not known
            return [self._answer(command) for command in commands]

    def _answer(self, command: tuple[Any, ...]) -> Any:
        try:
            return self._pool.run(command)[0]
        except RedisRefused as error:
            self._refused[f"{' '.join(map(str, command[:2]))}: {error}"] = None
            return None


def _set_commands(key: str, now: float) -> list[tuple[Any, ...]]:
    return [("ZCARD", key), ("ZCOUNT", key, "-inf", now), ("ZRANGE", key, 0, 0, "WITHSCORES")]


def _set_facts(replies: Sequence[Any], now: float) -> SetFacts:
    size, due, first = replies
    late_s = max(0.0, now - float(first[1])) if first and due else 0.0
    return SetFacts(size=size or 0, due=due or 0, late_s=late_s)


def _queue(
    now: float, name: str, size: int | None, oldest: bytes | None, suspects: int | None
) -> QueueFacts:
    job = JobRecord(oldest) if oldest is not None else None
    return QueueFacts(
        name=name,
        size=size or 0,
        latency_s=job.latency(now) if job is not None else 0.0,
        suspects=suspects or 0,
        is_readable=job is None or bool(job.item),
    )


def _tick(member: bytes) -> tuple[int, str]:
    instant, _, name = member.partition(b" ")
    return (int(instant) if instant.isdigit() else 0), text_of(name)
