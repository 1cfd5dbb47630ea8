"""Who lives: processes by their heartbeats, ours and Ruby's, and the leases of ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kiqbridge.inflight.incarnations import Incarnation, list_registered
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.wire_profile import is_ours
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of


class Process(NamedTuple):
    """A process whose hash is there: it gave a heartbeat within the last minute (§10.2).

    Attributes:
        identity: HOST:PID:NONCE.
        is_ours: whether it is one of Python's.
        concurrency: how many jobs it performs at once.
        busy: how many it performs now.
        is_quiet: whether it takes no new jobs.
        queues: which it serves.
    """

    identity: str
    is_ours: bool
    concurrency: int
    busy: int
    is_quiet: bool
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
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


def read_fleet(connection: RedisConnection, keys: Keys) -> Fleet:
    """Who lives now; in five round trips.

    Raises:
        RedisUnavailable: nothing was read.
    """
    identities = [text_of(name) for name in connection.call("SMEMBERS", keys.processes)]
    rows: Sequence[Any] = []
    if identities:
        rows = connection.run(
            *(("HMGET", keys.process(each), "info", "busy", "quiet") for each in identities)
        )
    processes = [
        _process(identity, *row)
        for identity, row in zip(identities, rows, strict=True)
        if row[0] is not None
    ]
    return Fleet(processes=processes, incarnations=list_registered(connection, keys))


def _process(identity: str, info: bytes, busy: bytes | None, quiet: bytes | None) -> Process:
    try:
        parsed = json_text.loads(info)
    except json_text.MalformedJSON:
        parsed = None
    fields = parsed if isinstance(parsed, dict) else {}
    concurrency, queues = fields.get("concurrency"), fields.get("queues")
    return Process(
        identity=identity,
        is_ours=is_ours(info),
        concurrency=concurrency if isinstance(concurrency, int) else 0,
        busy=int(busy) if busy is not None and busy.isdigit() else 0,
        is_quiet=quiet == b"true",
        queues=tuple(map(str, queues)) if isinstance(queues, list) else (),
    )


def _identity(each: Incarnation) -> str:
    """HOST:PID:NONCE of LAYOUT:HOST:PID:NONCE:N."""
    return each.name.partition(":")[2].rpartition(":")[0]
