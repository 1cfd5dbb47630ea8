"""The state of limiters in Redis: one key each, `kb:limit:KIND:NAME` (docs/how_to/limiters.md).

A check is one script, by the server's clock. Keys expire once they would say nothing any more, so a limiter
that nobody uses takes no memory.

| kind | type | value |
|---|---|---|
| `concurrent` | hash | token → `SINCE UNTIL OWNER`, one for each lock |
| `window` | list | times of the last ones, newest first |
| `bucket` | string | `START COUNT` |
| `leaky`, `points` | string | `LEVEL TIME` |

Times are microseconds since the epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, get_args

from kiqbridge.store import scripts
from kiqbridge.store.key_scan import scan_keys
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

Kind = Literal["concurrent", "window", "bucket", "leaky", "points"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

COUNT: Final = "kb_over_limit"
"""Attribute of a payload: how often the job was put off because of a limit."""

LIMITER: Final = "kb_limiter"
"""Attribute of a payload: `KIND LIMIT NAME` of the limiter that has put it off last."""

LOCKS_TTL_MS: Final = 30 * 86_400_000
"""The locks of a limiter that nobody asked for 30 days are forgotten, and with them a job that ran so long."""

_US: Final = 1_000_000
_CONCURRENT: Final = scripts.load("concurrent", __file__)
_RENEW: Final = scripts.load("renew", __file__)
_WINDOW: Final = scripts.load("window", __file__)
_BUCKET: Final = scripts.load("bucket", __file__)
_LEVEL: Final = scripts.load("level", __file__)


class Answer(NamedTuple):
    """Whether something was taken; if not, the seconds until there is room, or 0 where nobody can know."""

    taken: bool
    wait_s: float = 0.0


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
    """The state of one limiter as it stands in Redis.

    Attributes:
        kind, name: which one.
        used: locks, places or points that are taken; for `window` and `bucket` as of the last check.
        forgotten_in_s: seconds after which the key expires.
    """

    kind: Kind
    name: str
    used: float
    forgotten_in_s: float


def list_limits(pool: RedisPool, keys: Keys, most: int = 1000) -> Iterator[LimitState]:
    """The limiters that have a state, in no order: for operators, as it reads through all keys (SCAN)."""
    found = 0
    for kind in KINDS:
        prefix = keys.limit(kind, "")
        for key in chain.from_iterable(scan_keys(pool, prefix)):
            state = read_limit(pool, keys, kind, key[len(prefix) :])
            if state is None:
                continue
            if found == most:
                return
            found += 1
            yield state


def read_limit(pool: RedisPool, keys: Keys, kind: Kind, name: str) -> LimitState | None:
    """The state of one limiter; None: it has none. Raises as `take_lock`."""
    key = keys.limit(kind, name)
    look = {"concurrent": "HLEN", "window": "LLEN"}.get(kind, "GET")
    value, ttl_ms = pool.run((look, key), ("PTTL", key))
    if ttl_ms < 0:
        return None
    used = float(value) if look != "GET" else _number(value, last=kind == "bucket")
    return LimitState(kind=kind, name=name, used=used, forgotten_in_s=ttl_ms / 1000)


def _answer(reply: Any) -> Answer:
    taken, wait_us = reply
    return Answer(bool(taken), wait_us / _US)


def _number(value: bytes | None, *, last: bool) -> float:
    try:
        return float((value or b"").split()[-1 if last else 0])
    except (ValueError, IndexError):
        return 0.0
