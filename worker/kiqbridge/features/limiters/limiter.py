"""Limits on what all processes together do: how many at once, or how many in a time (docs/how_to/limiters.md).

    ERP = limiter.concurrent("erp", 50)

    with ERP.within_limit():
        post_order(order_id)

A limiter is a name and its numbers; its state is in Redis, shared by all who use the name. Making one costs
nothing, so it may be made for each user or account. `@job(limiter=ERP)` asks before the job begins. A job
that ends with `OverLimit` is put off, and has not failed.
"""

from functools import partial
from typing import TYPE_CHECKING, Unpack

from kiqbridge.errors import ConfigError
from kiqbridge.features.limiters import locks as limiter_locks
from kiqbridge.features.limiters import store as limits
from kiqbridge.features.limiters.store import Answer, Asked, Attempt, Kind, Lock
from kiqbridge.features.limiters.within import Limiter, PatienceOptions, Per, Place, Within

if TYPE_CHECKING:
    from kiqbridge.wire.keys import Keys


class concurrent(Limiter):  # noqa: N801 - called as a function
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

    def asked(self) -> Asked:
        """Kind, name and numbers of this limiter, as the script takes them."""
        return Asked(self.kind, self.name, self.limit)

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a lock is one
        """An entry that takes a lock."""
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


class window(Limiter):  # noqa: N801 - as above
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

    def asked(self) -> Asked:
        """Kind, name and numbers of this limiter, as the script takes them."""
        return Asked(self.kind, self.name, self.limit, self.interval_s)

    def attempt(self, place: Place, amount: float) -> Attempt:  # noqa: ARG002 - a place is one
        """An entry that takes a place, which is free again after `per`."""
        return Attempt(partial(self._take, *self._state(place), self.limit, self.interval_s))


class bucket(window):  # noqa: N801 - as above
    """At most `limit` in each interval of the clock: each full second, minute or hour (UTC) begins at 0.

    Around the change of an interval up to twice as many may come; `window` excludes that.

    Args and Raises: as `window`.
    """

    kind: Kind = "bucket"
    _take = staticmethod(limits.take_from_bucket)


class leaky(Limiter):  # noqa: N801 - as above
    """Up to `size` at once, then one after the other at a constant rate of `size` in `per`.

    Args:
        name: shared by all who use this limiter.
        size: how many may come at once after a pause.
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

    def asked(self) -> Asked:
        """Kind, name and numbers of this limiter, as the script takes them."""
        return Asked(self.kind, self.name, self.holds, self.rate)

    def attempt(self, place: Place, amount: float) -> Attempt:
        """An entry that adds `amount` to the bucket, which drains with time."""
        return Attempt(partial(limits.pour, *self._state(place), self.holds, self.rate, amount))


class points(Limiter):  # noqa: N801 - as above
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
        """Enter the limiter for a request of about `estimate` points.

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

    def asked(self) -> Asked:
        """Kind, name and numbers of this limiter, as the script takes them."""
        return Asked(self.kind, self.name, self.holds, self.rate)

    def attempt(self, place: Place, amount: float) -> Attempt:
        """An entry that takes `amount` points."""
        stock = (*self._state(place), self.holds, self.rate)

        def correct(points: float) -> None:
            if points != amount:
                limits.correct(*stock, points - amount)

        return Attempt(partial(limits.pour, *stock, amount), correct=correct)
