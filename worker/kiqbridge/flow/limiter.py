"""Limits on what all processes together do: how many at once, or how many in a time (docs/limiters.md).

    ERP = limiter.concurrent("erp", 50)

    with ERP.within_limit():
        post_order(order_id)

A limiter is a name and its numbers; its state is in Redis, shared by all who use the name. Making one costs
nothing, so it may be made for each user or account. `@job(limiter=ERP)` asks before the job begins. A job
that ends with `OverLimit` is put off, and has not failed.
"""

from typing import Literal, Unpack

from kiqbridge.errors import OverLimit
from kiqbridge.flow.limiter_kinds import (
    Concurrent,
    Counted,
    Leaky,
    Limiter,
    Patience,
    PatienceOptions,
    Points,
)
from kiqbridge.flow.limiter_within import Within, unlimited

__all__ = [
    "Limiter",
    "OverLimit",
    "Per",
    "Within",
    "bucket",
    "concurrent",
    "leaky",
    "points",
    "unlimited",
    "window",
]

Per = Literal["second", "minute", "hour", "day"]
"""Names of intervals; others are given in seconds."""


def concurrent(
    name: str,
    limit: int,
    *,
    lock_timeout_s: float = 30.0,
    **patience: Unpack[PatienceOptions],
) -> Concurrent:
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
    return Concurrent(name, limit, lock_timeout_s, Patience(**patience))


def window(
    name: str,
    limit: int,
    *,
    per: Per | float,
    **patience: Unpack[PatienceOptions],
) -> Counted:
    """At most `limit` within any interval of the length `per`, wherever it begins.

    Args:
        name: shared by all who use this limiter.
        limit: how many.
        per: "second", "minute", "hour", "day", or seconds.
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """
    return Counted("window", name, limit, per, Patience(**patience))


def bucket(
    name: str,
    limit: int,
    *,
    per: Per | float,
    **patience: Unpack[PatienceOptions],
) -> Counted:
    """At most `limit` in each interval of the clock: each full second, minute or hour (UTC) begins at 0.

    Around the change of an interval up to twice as many may come; `window` excludes that.

    Args and Raises: as `window`.
    """
    return Counted("bucket", name, limit, per, Patience(**patience))


def leaky(
    name: str,
    size: int,
    *,
    per: Per | float,
    **patience: Unpack[PatienceOptions],
) -> Leaky:
    """Up to `size` at once, then one after the other at a constant rate of `size` in `per`.

    Args:
        name: shared by all who use this limiter.
        size: how many may come at once after a rest.
        per: in which time the full bucket drains: "second", "minute", "hour", "day", or seconds.
        patience: `wait_timeout_s`, `put_off_s`, `max_put_offs` and `client`, see `PatienceOptions`.

    Raises:
        ConfigError: a value that cannot be used.
    """
    made = Leaky("leaky", name, size, 1.0, Patience(**patience))
    made.rate = size / made._interval_s(per)  # noqa: SLF001 - checked after the size
    return made


def points(
    name: str,
    limit: float,
    *,
    refill_per_s: float,
    **patience: Unpack[PatienceOptions],
) -> Points:
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
    return Points("points", name, limit, refill_per_s, Patience(**patience))
