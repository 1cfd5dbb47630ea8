"""Who lives: processes by their heartbeats, ours and Ruby's, and the leases of ours."""

from collections.abc import Sequence
from typing import NamedTuple

from kiqbridge.api import Operator, ProcessSet
from kiqbridge.api.processes import Process
from kiqbridge.inflight.incarnations import Incarnation, list_registered
from kiqbridge.store.redis_connection import RedisConnection


class Fleet(NamedTuple):
    """Processes of both languages, and the leases of ours.

    Attributes:
        processes: those with a heartbeat, whether ours or Ruby's. A process that was killed stays for a minute.
        incarnations: the leases of ours, with what each holds.
    """

    processes: Sequence[Process]
    incarnations: Sequence[Incarnation]

    @property
    def workers(self) -> Sequence[Process]:
        """Our processes that live: with a lease by its sign of life, without one by their heartbeat."""
        signs = {_identity(each): each.state == "alive" for each in self.incarnations}
        return [each for each in self.processes if each.is_ours and signs.get(each.identity, True)]

    @property
    def has_leases(self) -> bool:
        """Whether a worker of ours gives signs of life: it gives back what dead ones hold."""
        return any(each.state == "alive" for each in self.incarnations)

    @property
    def has_workers(self) -> bool:
        """Whether a worker of ours lives."""
        return self.has_leases or bool(self.workers)

    @property
    def workers_alive(self) -> int:
        """How many workers of ours live, also where their heartbeats fail."""
        leases = sum(each.state == "alive" for each in self.incarnations)
        return max(leases, len(self.workers))

    @property
    def living(self) -> Sequence[Process]:
        """Processes that live, whether ours or Ruby's."""
        return [*self.workers, *(each for each in self.processes if not each.is_ours)]

    @property
    def in_flight(self) -> int:
        """How many jobs our workers hold, those that died included."""
        return sum(each.held_jobs for each in self.incarnations)

    @property
    def orphans(self) -> Sequence[Incarnation]:
        """Leases whose owner is silent, or whose jobs are on their way back."""
        return [each for each in self.incarnations if each.state in ("silent", "being reaped")]


def read_fleet(here: Operator, connection: RedisConnection) -> Fleet:
    """Who lives now; in five round trips.

    Raises:
        RedisUnavailable: nothing was read.
    """
    return Fleet(list(ProcessSet(here)), list_registered(connection, here.keys))


def _identity(each: Incarnation) -> str:
    """HOST:PID:NONCE of LAYOUT:HOST:PID:NONCE:N."""
    return each.name.partition(":")[2].rpartition(":")[0]
