"""From the options of a call to a push: when a task runs, until when, and whether its result is kept."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kiqbridge.compat.celery.conf import Conf
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.clock import client_now
from kiqbridge.wire.options import with_attributes
from kiqbridge.wire.payload import run_time


def item_of(
    declared: object,
    args: Sequence[Any],
    *,
    conf: Conf,
    queue: str,
    at: float | None,
    expires: float | timedelta | datetime | None,
    task_id: str | None,
    ignored: bool,
) -> dict[str, Any]:
    """What is pushed, as `Client.push` takes it.

    Args:
        declared: the job, or its name.
        args: as they go on the wire.
        conf: of the application.
        queue: where the job goes.
        at: when it runs, epoch seconds; None = now.
        expires: as Celery's, from now on.
        task_id: the jid.
        ignored: no result is kept.
    """
    item: dict[str, Any] = {"class": declared, "args": list(args), "queue": queue}
    if task_id is not None:
        item["jid"] = task_id
    if not ignored and conf.result_backend:
        item["result_ttl"] = conf.result_expires
    if expires is not None:
        wait_s = 0.0 if at is None else max(at - time.time(), 0.0)  # expires_in counts from then
        item["expires_in"] = max(seconds_left(expires) - wait_s, 0.001)
    at = None if at is None else run_time(at, client_now())
    return with_attributes(item) | ({} if at is None else {"at": at})


def when_of(countdown: float | None, eta: datetime | float | None) -> float | None:
    """Epoch seconds at which a job shall run, or None: now.

    Raises:
        PayloadError: both are given, or `eta` has no time zone.
    """
    if countdown is not None and eta is not None:
        raise PayloadError("give countdown (seconds) or eta (a time), not both")
    if countdown is not None:
        return time.time() + float(countdown)
    if isinstance(eta, datetime):
        if eta.tzinfo is None:
            raise PayloadError(f"eta: {eta!r} has no time zone; use datetime.now(UTC) or the like")
        return eta.timestamp()
    return eta


def seconds_left(expires: float | timedelta | datetime) -> float:
    """Seconds from now: what `expires` of a call means."""
    if isinstance(expires, timedelta):
        return expires.total_seconds()
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise PayloadError(f"expires: {expires!r} has no time zone; use datetime.now(UTC)")
        return (expires - datetime.now(expires.tzinfo)).total_seconds()
    return float(expires)
