"""What the rules look at: one server, read at most once for all rules."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, Self

from kiqbridge.api import Fact, Facts, JobRecord, Operator, Process, Verdict, fetch_facts, judge
from kiqbridge.api.processes import unknown_classes
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.errors import RedisRefused
from kiqbridge.store.pauses import server_time
from kiqbridge.store.server_check import fetch_policy, parse_info
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.keys import TYPES
from kiqbridge.wire.names import text_of

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.store.rights import Role
    from kiqbridge.wire.keys import Keys

MOST_NAMES: Final = 1000
"""Queues and ledgers that are looked at, so that a check never takes long."""

MOST_SHOWN: Final = 100
"""Findings of a rule; of the others the number."""

MOST_KEYS: Final = 10_000
_SCAN: Final = 2_500
"""Names of keys that are looked at, and by one command."""

MOST_QUEUES: Final = 200
MOST_JOBS: Final = 3_000
MOST_OF_A_PLACE: Final = 200
LEAST_OF_A_PLACE: Final = 20
MOST_BYTES: Final = 32_000_000
MOST_S: Final = 2.0
"""Of a sample of jobs: how many queues, jobs in all, if there are many places fewer of each, bytes and seconds."""

AT_ONCE: Final = 20
"""Jobs that one command reads: they may have 10 MB each."""

_GROWTH: Final = 8
"""So many times more commands in each round trip, while their replies are small."""

_SETTINGS: Final = ("save", "min-replicas-to-write", "client-output-buffer-limit")
_SECTIONS: Final = (
    *("server", "cluster", "memory", "persistence", "replication", "clients", "stats"),
    *("commandstats", "latencystats"),
)
_CLOCKED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A job that was looked at.

    Attributes:
        place: `queue NAME`, `retry`, `schedule` or `dead`.
        job: what it says.
    """

    place: str
    job: JobRecord

    @property
    def is_dead(self) -> bool:
        """Whether nothing happens to it any more by itself."""
        return self.place == "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some jobs of each place, and how many jobs there are in all of them."""

    jobs: Sequence[Sampled]
    total: int

    @property
    def scope(self) -> str:
        """How many were looked at, for people."""
        if len(self.jobs) == self.total:
            return f"all {self.total:,} jobs were looked at"
        return f"{len(self.jobs):,} of {self.total:,} jobs were looked at"


class System:
    """A server, a namespace and what a worker would be started with.

    Args:
        operator: where.
        environ: of a worker.
        needs: whose rights this user must have.
        stop_timeout_s: seconds after which the orchestrator kills a worker that is to stop; None = not known.

    Attributes:
        operator: where.
        pool: connections to the server.
        keys: the namespace.
        connection: for all that is read.
        environ: of a worker.
    """

    def __init__(
        self,
        operator: Operator,
        environ: Mapping[str, str],
        needs: "Sequence[Role]" = ("worker",),
        stop_timeout_s: float | None = None,
    ) -> None:
        self.operator = operator
        self.pool: RedisPool = operator.pool
        self.keys: Keys = operator.keys
        self.connection: RedisConnection = self.pool.connection()
        self.environ = environ
        self.needs = needs
        self.stop_timeout_s = stop_timeout_s
        self.members = cache(self._members)
        self._kinds: dict[str, str] = {}
        self._has_answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @cached_property
    def server_now(self) -> float:
        """Of the server, epoch seconds."""
        return time.time() + min(self.clocked)[1]

    def answers(self) -> None:
        """Ask the server for an answer, once.

        Raises:
            RedisUnavailable, RedisRefused: it gives none.
        """
        if not self._has_answered:
            self.connection.call("PING")
        self._has_answered = True

    @property
    def policy(self) -> str | None:
        """What the server does when its memory is full; None: it does not answer that."""
        with suppress(RedisRefused):
            if policy := self.info("memory").get("maxmemory_policy"):
                return policy
        return fetch_policy(self.connection.run)

    @property
    def processes(self) -> Sequence[Process]:
        """Those of Python and Ruby that live, as their heartbeats show them."""
        return self.facts.processes

    @cached_property
    def facts(self) -> Facts:
        """The state, as the page Now judges it; of unknown classes the whole sample."""
        facts = fetch_facts(self.operator)
        jobs = ((each.place, each.job) for each in self.sample.jobs if not each.is_dead)
        return replace(facts, unknown=unknown_classes(jobs, facts.processes))

    def found(self, rule: Rule) -> list[Fact]:
        """What the list of the page Now finds of this kind."""
        return [fact for fact in self._verdict.facts if fact.kind == rule.id]

    def judged(self, rule: Rule, well: str) -> list[Finding]:
        """The same as findings; where there is none, that all is well; of very many the first and the number."""
        found = self.found(rule)
        shown = [rule.judged(fact) for fact in found[:MOST_SHOWN]]
        if rest := found[MOST_SHOWN:]:
            more = replace(rest[0], what=f"{len(rest):,} more like these. The next: {rest[0].what}")
            shown.append(rule.judged(more))
        return shown or [rule.ok(well)]

    @cached_property
    def _verdict(self) -> Verdict:
        return judge(self.facts)

    @cached_property
    def sample(self) -> Sample:
        """The oldest and the newest jobs of each queue and set, as many as there is time for."""
        names = self.members(self.keys.queues, self.kinds([self.keys.queues])[self.keys.queues])
        kinds = self.kinds([self.keys.queue(name) for name in names])
        queues = sorted(name for name in names if kinds[self.keys.queue(name)] == "list")
        places = [
            *(("LLEN", "LRANGE", name, self.keys.queue(name)) for name in queues[:MOST_QUEUES]),
            *(
                ("ZCARD", "ZRANGE", name, key)
                for name, key in self.sets("retry", "schedule", "dead").items()
            ),
        ]
        counts = [(count, key) for count, _, _, key in places]
        sizes = self.connection.run(*counts) if counts else []
        most = MOST_JOBS // max(len(places), 1)
        most = max(LEAST_OF_A_PLACE, min(MOST_OF_A_PLACE, most))
        left = [
            (command, name, key, span)
            for (_, command, name, key), size in zip(places, sizes, strict=True)
            for span in _spans(size, most)
        ]
        jobs: list[Sampled] = []
        end, size_read, step = time.monotonic() + MOST_S, 0, 1
        while left and time.monotonic() <= end and size_read <= MOST_BYTES:
            some, left = left[:step], left[step:]
            replies = self.connection.run(
                *((command, key, *span) for command, _, key, span in some)
            )
            size = sum(len(text) for texts in replies for text in texts)
            step = step * _GROWTH if size * _GROWTH <= BATCH_BYTES * 2 else max(1, step // _GROWTH)
            size_read += size
            for (command, name, _, _), texts in zip(some, replies, strict=True):
                is_queue = command == "LRANGE"
                place, queue = (f"queue {name}", name) if is_queue else (name, None)
                jobs += [Sampled(place=place, job=JobRecord(text, queue=queue)) for text in texts]
        return Sample(jobs=jobs, total=sum(sizes))

    @cached_property
    def scanned(self) -> tuple[Sequence[bytes], bool]:
        """Names of keys, in the order of SCAN, and whether these are all."""
        found = dict[bytes, None]()
        cursor: bytes | int = 0
        while len(found) < MOST_KEYS:
            cursor, names = self.connection.call("SCAN", cursor, "COUNT", _SCAN)
            found |= dict.fromkeys(names)
            if int(cursor) == 0:
                return list(found), True
        return list(found), False

    @cached_property
    def clocked(self) -> Sequence[tuple[float, float]]:
        """Of some round trips their seconds, and by how many seconds the server's clock was ahead of ours then."""
        found = []
        for _ in range(_CLOCKED):
            sent, start = time.time(), time.perf_counter()
            server = server_time(self.connection.call("TIME"))
            took = time.perf_counter() - start
            found.append((took, server - sent - took / 2))
        return found

    def sets(self, *names: str) -> dict[str, str]:
        """Those of the sorted sets `schedule`, `retry`, `dead` that are there and are sorted sets, and their keys."""
        keys = {name: str(getattr(self.keys, name)) for name in names}
        kinds = self.kinds(list(keys.values()))
        return {name: key for name, key in keys.items() if kinds[key] == "zset"}

    @cached_property
    def config(self) -> Mapping[str, str]:
        """Settings of the server; none where this user is one of few rights, or the server refuses.

        A user of few rights is not asked for them: a refusal would stand in the server's ACL LOG.
        """
        if self.pool.user != "default":
            return {}
        try:
            replies = self.connection.run(*(("CONFIG", "GET", name) for name in _SETTINGS))
        except RedisRefused:
            return {}
        return {
            text_of(reply[0]): reply[1].decode("utf-8", "replace")
            for reply in replies
            if len(reply) > 1
        }

    def kinds(self, names: Sequence[str]) -> dict[str, str]:
        """Key → its type, as TYPE answers it."""
        fixed = () if self._kinds else (getattr(self.keys, name) for name in TYPES)
        asked = [each for each in dict.fromkeys((*names, *fixed)) if each not in self._kinds]
        replies = self.connection.run(*(("TYPE", name) for name in asked)) if asked else []
        self._kinds |= {name: reply.decode() for name, reply in zip(asked, replies, strict=True)}
        return {name: self._kinds[name] for name in names}

    def _members(self, key: str, kind: str) -> list[str]:
        """Names in a key of this type, a set or a sorted set; not more than are looked at."""
        found: list[bytes] = []
        if kind == "set":
            found = self.connection.call("SSCAN", key, 0, "COUNT", MOST_NAMES)[1]
        elif kind == "zset":
            found = self.connection.call("ZRANGE", key, 0, MOST_NAMES - 1)
        return [name.decode("utf-8", "surrogateescape") for name in found]

    def info(self, section: str) -> Mapping[str, str]:
        """A section of INFO."""
        return self._infos[section]

    @cached_property
    def _infos(self) -> Mapping[str, Mapping[str, str]]:
        replies = self.connection.run(*(("INFO", section) for section in _SECTIONS))
        return dict(zip(_SECTIONS, map(parse_info, replies), strict=True))


Checks = Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]
"""Rules, and the function that applies them."""


def _spans(size: int, most: int) -> Iterator[tuple[int, int]]:
    """The positions that are read of a place with so many members: its begin, and its end."""
    half = most // 2
    parts = [(0, size)] if size <= most else [(0, half), (size - half, size)]
    for begin, end in parts:
        for first in range(begin, end, AT_ONCE):
            yield first, min(first + AT_ONCE, end) - 1
