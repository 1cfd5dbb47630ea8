"""What the rules look at: one server, read at most once for all rules."""

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge.api import Fact, Facts, Operator, Process, Verdict, fetch_facts, judge
from kiqbridge.api.unknown_classes import unknown_classes
from kiqbridge.doctor.finding import Finding, Rule
from kiqbridge.doctor.sample import SETS, Sample, take_sample
from kiqbridge.errors import RedisRefused
from kiqbridge.store.server_check import parse_info

if TYPE_CHECKING:
    from kiqbridge.doctor.redis_rights import Role
    from kiqbridge.store.redis_connection import RedisConnection
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.store.round_trip import Command
    from kiqbridge.wire.keys import Keys

MOST_NAMES: Final = 1000
"""Queues and ledgers that are looked at, so that a check never takes long."""

MOST_SHOWN: Final = 100
"""Findings of a rule; of the others the number."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The processes of Python and Ruby that live, as their heartbeats show them.

    Attributes:
        processes: those whose heartbeat is there.
    """

    processes: Sequence[Process] = ()

    @property
    def ours(self) -> list[Process]:
        """The workers of Kiqbridge."""
        return [each for each in self.processes if each.is_ours]

    @property
    def ruby(self) -> list[Process]:
        """The others."""
        return [each for each in self.processes if not each.is_ours]

    @cached_property
    def queues(self) -> Mapping[str, Sequence[Process]]:
        """Queue → who serves it."""
        served: dict[str, list[Process]] = {}
        for each in self.processes:
            for name in each.queues:
                served.setdefault(name, []).append(each)
        return served

    @cached_property
    def queues_of_python(self) -> AbstractSet[str]:
        """Queues that a worker of Kiqbridge serves."""
        return {name for name, who in self.queues.items() if any(each.is_ours for each in who)}


class System:
    """A server, a namespace and what a worker would be started with.

    Args:
        operator: where.
        environ: of a worker.
        needs: whose rights this user must have.
        stop_timeout_s: seconds after which the orchestrator kills a worker that is to stop; None = not known.

    Attributes:
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
        self.info = cache(self._info)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @cached_property
    def now(self) -> float:
        """Of this machine, epoch seconds."""
        return time.time()

    @cached_property
    def server_now(self) -> float:
        """Of the server, epoch seconds."""
        seconds, microseconds = self.connection.call("TIME")
        return int(seconds) + int(microseconds) / 1_000_000

    @cached_property
    def fleet(self) -> Fleet:
        """The processes that live."""
        return Fleet(processes=self.facts.processes)

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
        """Some jobs of each queue and set."""
        names = self.members(self.keys.queues, self.kinds([self.keys.queues])[self.keys.queues])
        kinds = self.kinds([self.keys.queue(name) for name in names])
        queues = sorted(name for name in names if kinds[self.keys.queue(name)] == "list")
        return take_sample(self.connection, self.keys, queues, list(self.sets(*SETS)))

    def sets(self, *names: str) -> dict[str, str]:
        """Those of the sorted sets `schedule`, `retry`, `dead` that are there and are sorted sets, and their keys."""
        keys = {name: str(getattr(self.keys, name)) for name in names}
        kinds = self.kinds(list(keys.values()))
        return {name: key for name, key in keys.items() if kinds[key] == "zset"}

    def try_run(self, *commands: "Command") -> list[Any] | None:
        """Replies; None where the server refuses one."""
        try:
            return self.connection.run(*commands)
        except RedisRefused:
            return None

    def config(self, name: str) -> str | None:
        """A setting of the server; None where this user is one of few rights, or the server refuses.

        A user of few rights is not asked for it: a refusal would stand in the server's ACL LOG.
        """
        if self.pool.user != "default":
            return None
        try:
            reply = self.connection.call("CONFIG", "GET", name)
        except RedisRefused:
            return None
        return reply[1].decode("utf-8", "replace") if len(reply) > 1 else None

    def kinds(self, names: Sequence[str]) -> dict[str, str]:
        """Key → its type, as TYPE answers it."""
        replies = self.connection.run(*(("TYPE", name) for name in names)) if names else []
        return {name: reply.decode() for name, reply in zip(names, replies, strict=True)}

    def members(self, key: str, kind: str) -> list[str]:
        """Names in a key of this type, a set or a sorted set; not more than are looked at."""
        if kind == "set":
            found: list[bytes] = self.connection.call("SSCAN", key, 0, "COUNT", MOST_NAMES)[1]
        elif kind == "zset":
            found = self.connection.call("ZRANGE", key, 0, MOST_NAMES - 1)
        else:
            found = []
        return [name.decode("utf-8", "surrogateescape") for name in found]

    def _info(self, section: str) -> Mapping[str, str]:
        return parse_info(self.connection.call("INFO", section))
