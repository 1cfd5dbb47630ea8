"""The registered incarnations of worker processes: who is alive, who is silent, what they hold."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from kiqbridge.engine.inflight.unregistered import Unregistered, find_unregistered
from kiqbridge.errors import RedisRefused
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import text_of

if TYPE_CHECKING:
    from kiqbridge.store.round_trip import Command

logger = logging.getLogger(__name__)

State = Literal["alive", "silent", "being reaped", "not registered", "unknown layout"]


class SignOfLife(NamedTuple):
    """One sign of life as it stands in Redis (see renew.lua).

    Attributes:
        number: of the beat.
        at: the server's time (epoch seconds), for display.
        silent_after_s: how long its owner may be silent.
    """

    number: int
    at: float
    silent_after_s: float

    @classmethod
    def parse(cls, text: bytes | None) -> "SignOfLife | None":
        """None: there is none, or nothing that can be read."""
        try:
            number, at, silent_after_ms = (text or b"").split()
            return cls(int(number), float(at), int(silent_after_ms) / 1000)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One lease as Redis shows it.

    Attributes:
        name: LAYOUT:HOST:PID:NONCE:N.
        state: `silent` = its last sign of life is older than its owner may be silent, on the server's
            clock, or in its future: it may be dead, which only a watch can show; `being reaped` = its owner is
            fenced, and not all of its jobs went back yet; `not registered` =
            its lists are there, and no process looks after them; `unknown layout` = not ours to rescue.
        silent_for_s: seconds since its last sign of life, on the server's clock; None: there is none.
        beat: that sign of life, as it was read.
        tids: of one that is not registered: the claimers whose lists were found.
        held: queue → how many of its jobs are in flight, or the name of the list if it is not
            registered; of an unknown layout nothing is known.
    """

    name: str
    state: State
    silent_for_s: float | None
    beat: bytes | None
    held: Mapping[str, int]
    tids: tuple[str, ...] = ()

    @property
    def held_jobs(self) -> int:
        """How many jobs it holds."""
        return sum(self.held.values())


def list_incarnations(connection: RedisConnection, keys: Keys) -> list[Incarnation]:
    """All registered incarnations, by name, and those that are not and hold jobs.

    Looks through all keys of the server for the latter.

    Raises:
        RedisUnavailable: nothing was read.
    """
    named = list_registered(connection, keys)
    try:
        found = find_unregistered(connection, keys)
    except (
        RedisRefused
    ) as error:  # such as by an ACL without SCAN; the others can be rescued all the same
        logger.warning("lists in flight that no registration names are not looked for: %s", error)
        found = []
    return named + [_unregistered(each) for each in found]


def list_registered(connection: RedisLike, keys: Keys) -> list[Incarnation]:
    """All registered incarnations, by name, in three round trips.

    Raises:
        RedisUnavailable: nothing was read.
    """
    registered, reaping, time = connection.run(
        ("SMEMBERS", keys.inflight), ("SMEMBERS", keys.reaping), ("TIME",)
    )
    now = server_time(time)
    states: dict[bytes, State] = dict.fromkeys(registered, "alive")
    states |= dict.fromkeys(reaping, "being reaped")
    names = [text_of(name) for name in sorted(states)]
    if not names:
        return []
    beats, *claims = connection.run(
        ("HMGET", keys.alive, *names), *(("HGETALL", keys.claims(name)) for name in names)
    )
    all_held = _count_held(connection, keys, dict(zip(names, claims, strict=True)))
    return [
        _looked_at(name, states[member], beat, all_held[name], now)
        for member, name, beat in zip(sorted(states), names, beats, strict=True)
    ]


def _unregistered(each: Unregistered) -> Incarnation:
    is_known = layout_of(each.incarnation) == LAYOUT
    return Incarnation(
        name=each.incarnation,
        state="not registered" if is_known else "unknown layout",
        silent_for_s=None,
        beat=None,
        held=each.lists if is_known else {},
        tids=each.tids,
    )


def _looked_at(
    name: str, state: State, beat: bytes | None, held: Mapping[str, int], now: float
) -> Incarnation:
    sign = SignOfLife.parse(beat)
    silent_for_s = None if sign is None else max(now - sign.at, 0.0)
    # One from the future was given before the server's clock was set back; who lives gives the next within seconds.
    if state == "alive" and (sign is None or abs(now - sign.at) > sign.silent_after_s):
        state = "silent"
    if state != "alive" and layout_of(name) != LAYOUT:
        state = "unknown layout"
    return Incarnation(name=name, state=state, silent_for_s=silent_for_s, beat=beat, held=held)


def _count_held(
    connection: RedisLike, keys: Keys, claims: Mapping[str, list[bytes]]
) -> Mapping[str, Mapping[str, int]]:
    """Incarnation → queue → how many of its jobs are in flight; nothing for an unknown layout."""
    commands: list[Command] = []
    places: list[tuple[str, str]] = []
    for name, last_claims in claims.items():
        if layout_of(name) != LAYOUT:
            continue
        for tid, last in zip(last_claims[::2], last_claims[1::2], strict=True):
            for parity in (0, 1):
                commands.append(("LLEN", keys.inflight_list(name, text_of(tid), parity)))
                places.append((name, text_of(last.partition(b" ")[2])))
    held: dict[str, dict[str, int]] = {name: {} for name in claims}
    counts = connection.run(*commands) if commands else []
    for (name, queue), count in zip(places, counts, strict=True):
        if count:
            held[name][queue] = held[name].get(queue, 0) + count
    return held
