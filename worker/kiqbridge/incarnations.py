"""The registered incarnations of worker processes: who is alive, who is silent, what they hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kiqbridge.keys import LAYOUT, Keys, layout_of
from kiqbridge.pauses import server_time
from kiqbridge.redis_connection import Command, RedisConnection

State = Literal["alive", "silent", "unknown layout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One lease as Redis shows it.

    Attributes:
        name: LAYOUT:HOST:PID:NONCE:N.
        state: `silent` = its owner has said nothing for so long that it may be rescued;
            `unknown layout` = silent as far as can be told, and not ours to rescue.
        heartbeat_ago_s: seconds since the last heartbeat of its process; None when that is longer ago
            than a minute, or never was.
        held: queue → how many of its jobs are in flight; of an unknown layout nothing is known.
    """

    name: str
    state: State
    heartbeat_ago_s: float | None
    held: Mapping[str, int]

    @property
    def held_jobs(self) -> int:
        """How many jobs it holds."""
        return sum(self.held.values())


def list_incarnations(connection: RedisConnection, keys: Keys) -> list[Incarnation]:
    """All registered incarnations, by name.

    Raises:
        RedisUnavailable: nothing was read.
    """
    members, time = connection.run(("SMEMBERS", keys.inflight), ("TIME",))
    now = server_time(time)
    return [_look_at(connection, keys, name.decode(), now) for name in sorted(members)]


def _look_at(connection: RedisConnection, keys: Keys, name: str, now: float) -> Incarnation:
    identity = name.partition(":")[2].rpartition(":")[0]
    alive, beat, claims = connection.run(
        ("EXISTS", keys.alive(name)),
        ("HGET", keys.process(identity), "beat"),
        ("HGETALL", keys.claims(name)),
    )
    is_known = layout_of(name) == LAYOUT
    return Incarnation(
        name=name,
        state="alive" if alive else "silent" if is_known else "unknown layout",
        heartbeat_ago_s=_seconds_since(beat, now),
        held=_count_held(connection, keys, name, claims) if is_known else {},
    )


def _count_held(
    connection: RedisConnection, keys: Keys, name: str, claims: list[bytes]
) -> Mapping[str, int]:
    commands: list[Command] = []
    queues = []
    for tid, last in zip(claims[::2], claims[1::2], strict=True):
        for parity in (0, 1):
            commands.append(("LLEN", keys.inflight_list(name, tid.decode(), parity)))
            queues.append(last.partition(b" ")[2].decode())
    held: dict[str, int] = {}
    counts = connection.run(*commands) if commands else []
    for queue, count in zip(queues, counts, strict=True):
        if count:
            held[queue] = held.get(queue, 0) + count
    return held


def _seconds_since(beat: bytes | None, now: float) -> float | None:
    try:
        return None if beat is None else max(now - float(beat), 0.0)
    except ValueError:
        return None
