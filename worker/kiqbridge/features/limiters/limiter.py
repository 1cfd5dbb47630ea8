"""Limits on what all processes together do: how many at once, or how many in a time (docs/limiters.md).

    ERP = limiter.concurrent("erp", 50)

    with ERP.within_limit():
        post_order(order_id)

A limiter is a name and its numbers; its state is in Redis, shared by all who use the name. Making one costs
nothing, so it may be made for each user or account. `@job(limiter=ERP)` asks before the job begins. A job
that ends with `OverLimit` is put off, and has not failed.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypedDict, Unpack

from kiqbridge.client.current import RUNTIME
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError
from kiqbridge.features.limiters import locks as limiter_locks
from kiqbridge.features.limiters import store as limits
from kiqbridge.features.limiters.store import Answer, Kind, Lock
from kiqbridge.features.limiters.within import Attempt, Within

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.wire.keys import Keys

Per = Literal["second", "minute", "hour", "day"]
"""Names of intervals; others are given in seconds."""

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
    """A limit that is shared by all who use its name; made by `concurrent`, `window`, `bucket`, `leaky` and `points`.

    Attributes:
        kind: what is limited.
        name: its name among those of its kind.
    """

    kind: Kind

    def __init__(self, name: str, **patience: Unpack[PatienceOptions]) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            raise ConfigError(
                f"limiter {name!r}: the name is not a text of 1 to {_LONGEST_NAME} printable characters"
            )
        self.name = name
        self.patience = Patience(**patience)
        self._check("wait_timeout_s", self.patience.wait_timeout_s, least=0)
        self._check("put_off_s", self.patience.put_off_s)
        self._check("max_put_offs", self.patience.max_put_offs, least=0, whole=True)

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
        return limits.reset_limit(*self._state(self.place()))

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

    def _state(self, place: Place) -> tuple["RedisPool", str]:
        return place.pool, place.keys.limit(self.kind, self.name)

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
    """At most `limit` at the same time.

    Args:
        name: shared by all who use this limiter.
        limit: how many.
        lock_timeout_s: seconds after which the lock of a dead process is free, at least 1. Only outside a
            worker and in its child processes, which renew it while they live; a worker's own locks are free
            when the worker is no longer registered (30 s after it was killed, see `recover_after_s`).
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """

    kind: Kind = "concurrent"

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        lock_timeout_s: float = 30.0,
        **patience: Unpack[PatienceOptions],
    ) -> None:
        super().__init__(name, **patience)
        self._check("limit", limit, least=1, whole=True)
        self._check("lock_timeout_s", lock_timeout_s, least=1)
        self.limit = limit
        self.lock_timeout_s = lock_timeout_s

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a lock is one
        """A lock to be taken."""
        pool, key = self._state(place)
        token = limiter_locks.new_token()
        lock = Lock(pool=pool, key=key, token=token, valid_s=self.lock_timeout_s, owner=place.owner)
        taking = _Taking(lock, place.keys, self.limit)
        return Attempt(taking.take, taking.leave)


class _Taking:
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


class Window(Limiter):
    """At most `limit` within any interval of the length `per`, wherever it begins.

    Args:
        name: shared by all who use this limiter.
        limit: how many.
        per: "second", "minute", "hour", "day", or seconds.
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """

    kind: Kind = "window"
    _take = staticmethod(limits.take_from_window)

    def __init__(
        self, name: str, limit: int, *, per: Per | float, **patience: Unpack[PatienceOptions]
    ) -> None:
        super().__init__(name, **patience)
        self._check("limit", limit, least=1, whole=True)
        self.limit = limit
        self.interval_s = self._interval_s(per)

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a place is one
        """A place to be taken, which comes back with time."""
        return Attempt(partial(self._take, *self._state(place), self.limit, self.interval_s))


class Bucket(Window):
    """At most `limit` in each interval of the clock: each full second, minute or hour (UTC) begins at 0.

    Around the change of an interval up to twice as many may come; `window` excludes that.

    Args and Raises: as `window`.
    """

    kind: Kind = "bucket"
    _take = staticmethod(limits.take_from_bucket)


class Leaky(Limiter):
    """Up to `size` at once, then one after the other at a constant rate of `size` in `per`.

    Args:
        name: shared by all who use this limiter.
        size: how many may come at once after a rest.
        per: in which time the full bucket drains: "second", "minute", "hour", "day", or seconds.
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """

    kind: Kind = "leaky"

    def __init__(
        self, name: str, size: int, *, per: Per | float, **patience: Unpack[PatienceOptions]
    ) -> None:
        super().__init__(name, **patience)
        self._check("size", size)
        self.holds, self.rate = float(size), size / self._interval_s(per)

    def attempt(self, place: Place, amount: float) -> Attempt:
        """So much to be poured in, which drains with time."""
        return Attempt(partial(limits.pour, *self._state(place), self.holds, self.rate, amount))


class Points(Limiter):
    """A stock of `limit` points that is filled up again at a constant rate, for requests of different cost.

    with SHOPIFY.within_limit(estimate=10) as used:
        used.points_used(ask(query).cost)

    Args:
        name: shared by all who use this limiter.
        limit: points that there are after a rest.
        refill_per_s: points that come back in a second.
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """

    kind: Kind = "points"

    def __init__(
        self, name: str, limit: float, *, refill_per_s: float, **patience: Unpack[PatienceOptions]
    ) -> None:
        super().__init__(name, **patience)
        self._check("points", limit)
        self._check("refill_per_s", refill_per_s)
        self.holds, self.rate = float(limit), float(refill_per_s)

    def within_limit(self, estimate: float = 1.0) -> Within:
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

    def attempt(self, place: Place, amount: float) -> Attempt:
        """So many points to be taken."""
        stock = (*self._state(place), self.holds, self.rate)

        def correct(points: float) -> None:
            if points != amount:
                limits.correct(*stock, points - amount)

        return Attempt(partial(limits.pour, *stock, amount), correct=correct)


concurrent, window, bucket, leaky, points = Concurrent, Window, Bucket, Leaky, Points
