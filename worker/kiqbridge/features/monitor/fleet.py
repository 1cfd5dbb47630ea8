"""Who lives, what waits for a worker, and how much of it is demand.

Demand is what scaling needs: jobs that wait, are in flight, or are due in `retry` and `schedule` and wait for
a poller. A paused queue is no demand, since no worker would take its jobs. A queue of another
fleet than the scaled one is no demand, either.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from kiqbridge.api import Facts, Operator, fetch_facts
from kiqbridge.api.facts import QueueFacts
from kiqbridge.api.processes import Process
from kiqbridge.engine.inflight.incarnations import Incarnation, list_registered
from kiqbridge.store.redis_connection import RedisConnection

DUE_FOR_S: Final = 60.0
"""While any process lives its poller moves what is due within seconds: only what is due for longer is demand."""


class Fleet(NamedTuple):
    """Processes of both languages, the leases of ours, and what waits for them.

    Attributes:
        facts: the state, as the page Now judges it. A process that was killed stays in it for a minute.
        incarnations: the leases of our workers, with what each holds.
        due: jobs of `retry` and `schedule`, and reports for Step Functions, whose time has come.
        overdue: those of them that have been due for longer than a poller takes.
    """

    facts: Facts
    incarnations: Sequence[Incarnation]
    due: int
    overdue: int

    @property
    def workers(self) -> Sequence[Process]:
        """Our processes that live: with a lease by its sign of life, without one by their heartbeat."""
        signs = {_identity(each): each.state == "alive" for each in self.incarnations}
        processes = self.facts.processes
        return [each for each in processes if each.is_ours and signs.get(each.identity, True)]

    @property
    def has_leases(self) -> bool:
        """Whether a worker of ours gives signs of life: it gives back what dead ones hold."""
        return any(each.state == "alive" for each in self.incarnations)

    @property
    def workers_alive(self) -> int:
        """How many workers of ours live, also where their heartbeats fail."""
        leases = sum(each.state == "alive" for each in self.incarnations)
        return max(leases, len(self.workers))

    @property
    def living(self) -> Sequence[Process]:
        """Processes that live, whether ours or Ruby's."""
        return [*self.workers, *(each for each in self.facts.processes if not each.is_ours)]

    @property
    def in_flight(self) -> int:
        """How many jobs our workers hold, those that died included."""
        return sum(each.held_jobs for each in self.incarnations)

    @property
    def orphans(self) -> Sequence[Incarnation]:
        """Leases whose owner is silent, or whose jobs are on their way back."""
        return [each for each in self.incarnations if each.state in ("silent", "being reaped")]

    @property
    def unpaused(self) -> Sequence[QueueFacts]:
        """Queues from which workers take jobs."""
        paused = {each.name for each in self.facts.pauses if each.kind == "queue"}
        return [each for each in self.facts.queues if each.name not in paused]

    @property
    def unserved(self) -> Sequence[str]:
        """Queues in which jobs wait and that no living process serves, by name."""
        served = {name for each in self.living if not each.is_quiet for name in each.queues}
        return [each.name for each in self.unpaused if each.depth and each.name not in served]

    @property
    def is_silent(self) -> bool:
        """Whether something waits for which no worker lives: in a queue, due, or held by dead workers."""
        return bool(
            self.unserved
            or (self.due and not self.living)
            or (self.in_flight and not self.has_leases)
        )

    def demand(self, served: Collection[str]) -> int:
        """Jobs for which the fleet is needed that serves these queues; empty = all."""
        waiting = sum(each.depth for each in self.unpaused if not served or each.name in served)
        return waiting + self.in_flight + (self.overdue if self.living else self.due)


def read_fleet(here: Operator, connection: RedisConnection, served: Collection[str]) -> Fleet:
    """Who lives and what waits now; in six round trips.

    Args:
        here: of which Redis.
        connection: its own.
        served: queues of the scaled fleet, which are looked at also if Redis does not list them: one that was
            cleared is not listed, and a job of it may come back.

    Raises:
        RedisUnavailable: nothing was read.
    """
    facts, keys = fetch_facts(here, queues=served), here.keys
    sets = (keys.retry, keys.schedule, keys.flow_ends, keys.task_reports)
    due, overdue = (
        sum(connection.run(*(("ZCOUNT", key, "-inf", repr(at)) for key in sets)))
        for at in (facts.at, facts.at - DUE_FOR_S)
    )
    return Fleet(facts, list_registered(connection, keys), due, overdue)


def _identity(each: Incarnation) -> str:
    """HOST:PID:NONCE of LAYOUT:HOST:PID:NONCE:N."""
    return each.name.partition(":")[2].rpartition(":")[0]
