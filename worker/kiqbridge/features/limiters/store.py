"""The state of limiters in Redis: one key each, `kb:limit:KIND:NAME` (docs/how_to/limiters.md).

A check is one script, by the server's clock. Keys expire once they would say nothing any more, so a limiter
that is not used takes no memory.

| kind | type | value |
|---|---|---|
| `concurrent` | hash | token → `SINCE UNTIL OWNER`, one for each lock |
| `window` | list | times of the last ones, newest first |
| `bucket` | string | `START COUNT` |
| `leaky`, `points` | string | `LEVEL TIME` |

Times are microseconds since the epoch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

Kind = Literal["concurrent", "window", "bucket", "leaky", "points"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

COUNT: Final = "kb_over_limit"
"""Attribute of a payload: how often the job was put off because of a limit."""

LIMITER: Final = "kb_limiter"
"""Attribute of a payload: `KIND NAME` of the limiter that has put it off last."""

LOCKS_TTL_MS: Final = 30 * 86_400_000
"""The locks of a limiter that was not asked for 30 days are forgotten, and with them a job that ran so long."""

_US: Final = 1_000_000
_CONCURRENT: Final = scripts.load("concurrent", __file__)
_RENEW: Final = scripts.load("renew", __file__)
_WINDOW: Final = scripts.load("window", __file__)
_BUCKET: Final = scripts.load("bucket", __file__)
_LEVEL: Final = scripts.load("level", __file__)
_LIMITS: Final = scripts.load("limits", __file__)
_TERMS: Final = scripts.load("terms", __file__)

KNOWN_S: Final = 25 * 3600
"""Seconds for which a limiter is listed after it was noted (known.py)."""

MOST_KNOWN: Final = 10_000
"""Limiters that are listed; of more those that were used last."""


class Answer(NamedTuple):
    """Whether something was taken; if not, the seconds until there is room, or 0 where that is unknown."""

    taken: bool
    wait_s: float = 0.0


def _refuse_points(points: float) -> None:
    raise TypeError(f"points_used({points:g}): only limiters of the kind points have points")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One entry into a limit: asked for until it is granted, then left.

    Attributes:
        take: asks once, in one round trip.
        leave: it is over, or was given up.
        correct: it took so many points, and not as many as it was granted.
    """

    take: Callable[[], Answer]
    leave: Callable[[], object] = lambda: None
    correct: Callable[[float], object] = _refuse_points


class Asked(NamedTuple):
    """A limiter that somebody asks for.

    Attributes:
        kind, name: which one.
        limit: how many.
        per: seconds of the interval; of `leaky` and `points` what drains or comes back in a second; else 0.
    """

    kind: Kind
    name: str
    limit: float
    per: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One lock of a concurrent limiter.

    Attributes:
        pool: its server.
        key: all locks of the limiter.
        token: its own name.
        valid_s: seconds for which it is valid, if it has no owner.
        owner: the incarnation that holds it, or "".
    """

    pool: RedisPool
    key: str
    token: str
    valid_s: float
    owner: str = ""


def take_lock(lock: Lock, keys: Keys, limit: int) -> Answer:
    """Take a lock of which there are `limit`.

    Raises:
        RedisUnavailable: not known; repeat it with the same lock, or give that back.
        RedisRefused: the key is of another type.
    """
    args: list[str | bytes | float] = [
        lock.token,
        limit,
        lock.owner,
        round(lock.valid_s * _US),
        LOCKS_TTL_MS,
    ]
    known = [lock.key, keys.inflight, keys.limit_looked(lock.key)]
    taken, _held = lock.pool.script(_CONCURRENT, known, args)
    return Answer(bool(taken))


def renew_lock(lock: Lock) -> bool:
    """Let it be valid from now on for as long as at first; False: it is lost. Raises as `take_lock`."""
    args: list[str | bytes | float] = [lock.token, round(lock.valid_s * _US), LOCKS_TTL_MS]
    return bool(lock.pool.script(_RENEW, [lock.key], args))


def give_back_lock(lock: Lock) -> None:
    """Give it back; a second time does nothing. Raises as `take_lock`."""
    lock.pool.call("HDEL", lock.key, lock.token)


def take_from_window(pool: RedisPool, key: str, limit: int, interval_s: float) -> Answer:
    """Take one of `limit` places within any interval; raises as `take_lock`."""
    return _answer(pool.script(_WINDOW, [key], [limit, round(interval_s * _US)]))


def take_from_bucket(pool: RedisPool, key: str, limit: int, interval_s: float) -> Answer:
    """Take one of `limit` places of this interval; raises as `take_lock`."""
    return _answer(pool.script(_BUCKET, [key], [limit, round(interval_s * _US)]))


def pour(pool: RedisPool, key: str, holds: float, rate: float, amount: float) -> Answer:
    """Pour into a vessel that drains `rate` per second, if it does not overflow; raises as `take_lock`."""
    return _answer(pool.script(_LEVEL, [key], [holds, rate, amount, ""]))


def correct(pool: RedisPool, key: str, holds: float, rate: float, amount: float) -> None:
    """Pour in any case, or take out what is below 0.

    Raises:
        ReplyLost: not known whether it was done, and not to be repeated.
        RedisUnavailable, RedisRefused: as `take_lock`.
    """
    pool.script(_LEVEL, [key], [holds, rate, amount, "1"], repeatable=False)


def reset_limit(pool: RedisPool, key: str) -> bool:
    """Forget the state of a limiter; False: it had none. Raises as `take_lock`."""
    return bool(pool.call("DEL", key))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """The state of one limiter, by the server's clock.

    Attributes:
        kind, name: which one.
        used: locks, places or points that are taken.
        limit: of so many.
        per: seconds of the interval, as `Asked.per`.
        free_in_s: seconds until all is free again; 0 if unknown, or all is free.
        room_in_s: seconds until there is room; 0 if there is, or if unknown.
        waits: callers that wait for it, and jobs that were put off because of it.
    """

    kind: Kind
    name: str
    used: float
    limit: float
    per: float
    free_in_s: float
    room_in_s: float
    waits: int

    @property
    def is_full(self) -> bool:
        """Whether no job can enter now."""
        return self.room_in_s > 0 or (self.kind == "concurrent" and self.used >= self.limit)


def read_limits(pool: RedisPool, keys: Keys, asked: Sequence[Asked]) -> list[LimitState]:
    """The states of these, in one script. Raises as `take_lock`."""
    if not asked:
        return []
    names, args = [keys.inflight], list[str | bytes | float]()
    for each in asked:
        names += [keys.limit(each.kind, each.name), keys.limit_waits(each.kind, each.name)]
        is_span = each.kind in ("window", "bucket")
        args += [each.kind, each.limit, round(each.per * _US) if is_span else each.per]
    return [
        LimitState(
            **each._asdict(),
            used=float(used),
            free_in_s=free_us / _US,
            room_in_s=room_us / _US,
            waits=waits,
        )
        for each, (used, free_us, room_us, waits) in zip(
            asked, pool.script(_LIMITS, names, args), strict=True
        )
    ]


def note_terms(pool: RedisPool, keys: Keys, asked: Sequence[Asked]) -> None:
    """These are in use. Raises as `take_lock`."""
    args: list[str | bytes | float] = [KNOWN_S, MOST_KNOWN]
    for each in asked:
        args += [f"{each.kind} {each.name}", f"{each.limit!r} {each.per!r}"]
    pool.script(_TERMS, [keys.limiters, keys.limiter_terms], args)


def _answer(reply: Any) -> Answer:
    taken, wait_us = reply
    return Answer(bool(taken), wait_us / _US)
