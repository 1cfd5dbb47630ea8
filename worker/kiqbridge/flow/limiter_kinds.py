"""The kinds of limiters: what each asks Redis for; `limiter` makes them, and `limiter_within` enters them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypedDict

from kiqbridge.client.current import RUNTIME
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError
from kiqbridge.flow import limiter_locks
from kiqbridge.flow.limiter_within import Attempt, Within
from kiqbridge.store import limits
from kiqbridge.store.limits import Answer, Kind, Lock

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.wire.keys import Keys

_INTERVALS: Final[dict[str, float]] = {
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_LONGEST_NAME: Final = 200


class PatienceOptions(TypedDict, total=False):
    """What each limiter takes: what happens where its limit is reached."""

    wait_timeout_s: float
    """Seconds that a caller waits for room, before `OverLimit`; 0 = not at all; default 5."""
    put_off_s: float
    """Seconds for which a job is put off at first; doubled each time, up to 15 minutes; default 15."""
    max_put_offs: int
    """How often a job is put off before `OverLimit` is an error like others; default 20."""
    client: "Client | None"
    """Whose Redis holds the limiter; None: that of the worker, outside one the default client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What happens where a limit is reached, see `PatienceOptions`."""

    wait_timeout_s: float = 5.0
    put_off_s: float = 15.0
    max_put_offs: int = 20
    client: "Client | None" = None


class Place(NamedTuple):
    """Where the state of a limiter is, and who asks: an incarnation, or ""."""

    pool: "RedisPool"
    keys: "Keys"
    owner: str


class Limiter(ABC):
    """A limit that is shared by all who use its name; made by the functions of this module.

    Attributes:
        kind: what is limited.
        name: its name among those of its kind.
    """

    kind: Kind

    def __init__(self, name: str, patience: Patience) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            raise ConfigError(
                f"limiter {name!r}: the name is not a text of 1 to {_LONGEST_NAME} printable characters"
            )
        self.name = name
        self.patience = patience
        self._check("wait_timeout_s", patience.wait_timeout_s, least=0)
        self._check("put_off_s", patience.put_off_s)
        self._check("max_put_offs", patience.max_put_offs, least=0, whole=True)

    def __repr__(self) -> str:
        return f"<limiter {self.kind} {self.name}>"

    def within_limit(self) -> "Within":
        """What is done within the limit: for `with` and `async with`, once.

        Raises, on entering:
            OverLimit: the limit stayed reached for `wait_timeout_s`, or it is certain that it will, or the
                worker stops.
            RedisUnavailable: nobody can say.
        """
        return Within(self, 1.0)

    def status(self) -> limits.LimitState | None:
        """Its state in Redis; None: it has none, nothing is taken.

        Raises:
            RedisUnavailable: nothing was read.
        """
        place = self.place()
        return limits.read_limit(place.pool, place.keys, self.kind, self.name)

    def reset(self) -> bool:
        """Forget its state, so that all of it is free; False: there was none.

        Whoever holds a lock of a concurrent limiter goes on, and is not counted any more.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        place = self.place()
        return limits.reset_limit(place.pool, place.keys.limit(self.kind, self.name))

    def place(self) -> Place:
        """Where its state is, for who asks here and now."""
        client, runtime = self.patience.client, RUNTIME.get()
        if client is None and runtime is not None:
            return Place(runtime.redis, runtime.client.keys, runtime.incarnation())
        client = client or default_client()
        return Place(client.pool, client.keys, "")

    @abstractmethod
    def attempt(self, place: Place, amount: float) -> "Attempt":
        """One entry into the limit, which is not made yet."""

    def _check(
        self, what: str, value: object, *, least: float | None = None, whole: bool = False
    ) -> None:
        kinds = int if whole else int | float
        if (
            isinstance(value, kinds)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and (value > 0 if least is None else value >= least)
        ):
            return
        wanted = "whole number" if whole else "number"
        bound = "above 0" if least is None else f"of at least {least:g}"
        raise ConfigError(f"limiter {self.name!r}: {what} {value!r} is not a {wanted} {bound}")

    def _interval_s(self, per: float | str) -> float:
        known = _INTERVALS.get(per) if isinstance(per, str) else per
        if known is None:
            raise ConfigError(
                f"limiter {self.name!r}: per {per!r} is none of {', '.join(_INTERVALS)}, and no number of seconds"
            )
        self._check("per", known, least=0.001)
        return float(known)


class Concurrent(Limiter):
    """See `concurrent`."""

    kind: Kind = "concurrent"

    def __init__(self, name: str, limit: int, lock_timeout_s: float, patience: Patience) -> None:
        super().__init__(name, patience)
        self._check("limit", limit, least=1, whole=True)
        self._check("lock_timeout_s", lock_timeout_s, least=1)
        self.limit = limit
        self.lock_timeout_s = lock_timeout_s

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a lock is one
        """A lock to be taken."""
        lock = Lock(
            pool=place.pool,
            key=place.keys.limit(self.kind, self.name),
            token=limiter_locks.new_token(),
            valid_s=self.lock_timeout_s,
            owner=place.owner,
        )
        return _LockAttempt(lock, place.keys, self.limit)


class _LockAttempt:
    def __init__(self, lock: Lock, keys: "Keys", limit: int) -> None:
        self._lock = lock
        self._keys = keys
        self._limit = limit
        self._held: limiter_locks.Held | None = None
        self._may_hold = False

    def take(self) -> Answer:
        self._may_hold = True  # an error may have lost the reply
        answer = limits.take_lock(self._lock, self._keys, self._limit)
        self._may_hold = answer.taken
        if answer.taken:
            self._held = limiter_locks.hold(self._lock)
        return answer

    def leave(self) -> None:
        if self._may_hold:
            self._may_hold = False
            limiter_locks.give_back(self._held or limiter_locks.hold(self._lock))

    def correct(self, points: float) -> None:
        raise _no_points(points)


class Counted(Limiter):
    """See `window` and `bucket`."""

    def __init__(
        self,
        kind: Literal["window", "bucket"],
        name: str,
        limit: int,
        per: float | str,
        patience: Patience,
    ) -> None:
        super().__init__(name, patience)
        self._check("limit", limit, least=1, whole=True)
        self.kind = kind
        self.limit = limit
        self.interval_s = self._interval_s(per)

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a place is one
        """A place to be taken."""
        take = limits.take_from_window if self.kind == "window" else limits.take_from_bucket
        key = place.keys.limit(self.kind, self.name)
        return _Once(partial(take, place.pool, key, self.limit, self.interval_s))


class _Once:
    def __init__(
        self, take: Callable[[], Answer], correct: Callable[[float], None] | None = None
    ) -> None:
        self._take = take
        self._correct = correct

    def take(self) -> Answer:
        return self._take()

    def leave(self) -> None:
        """What was taken comes back with time."""

    def correct(self, points: float) -> None:
        if self._correct is None:
            raise _no_points(points)
        self._correct(points)


class Leaky(Limiter):
    """See `leaky` and `points`."""

    def __init__(
        self,
        kind: Literal["leaky", "points"],
        name: str,
        holds: float,
        rate: float,
        patience: Patience,
    ) -> None:
        super().__init__(name, patience)
        self._check("points" if kind == "points" else "size", holds)
        self._check("refill_per_s", rate)
        self.kind = kind
        self.holds = float(holds)
        self.rate = float(rate)

    def attempt(self, place: Place, amount: float) -> Attempt:
        """So much to be poured in."""
        vessel = (place.pool, place.keys.limit(self.kind, self.name), self.holds, self.rate)

        def correct(points: float) -> None:
            if points != amount:
                limits.correct(*vessel, points - amount)

        return _Once(
            partial(limits.pour, *vessel, amount), correct if self.kind == "points" else None
        )


class Points(Leaky):
    """See `points`."""

    def within_limit(self, estimate: float = 1.0) -> "Within":
        """As `Limiter.within_limit`, for a request of about so many points.

        Raises:
            ConfigError: more than the limiter can ever hold.
        """
        self._check("estimate", estimate, least=0)
        if estimate > self.holds:
            raise ConfigError(
                f"limiter {self.name!r}: estimate {estimate:g} is more than its {self.holds:g} points, so that it "
                "would never be granted"
            )
        return Within(self, float(estimate))


def _no_points(points: float) -> TypeError:
    return TypeError(f"points_used({points:g}): only limiters of the kind points have points")
