"""Switching a process to recorded jobs: `fake`, `inline`, and `drain` for what is in effect."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kiqbridge.clock import use_clock
from kiqbridge.errors import ConfigError
from kiqbridge.store.redis_pool import use_stand_in
from kiqbridge.testing.fake_jobs import FakeJobs


class Drains(Protocol):
    """What `drain` calls: that of a fake, or of a real server."""

    def drain(
        self,
        *,
        queue: str | None = None,
        job: object = None,
        limit: int | None = None,
        raise_errors: bool = True,
    ) -> int:
        """See `FakeJobs.drain`."""


_lock = threading.Lock()
_in_effect: list[Drains] = []


@contextmanager
def fake() -> Iterator[FakeJobs]:
    """Record jobs in memory instead of pushing them to Redis, whichever client they are pushed with.

    All else is the true path. Nothing is performed before `drain`. It is in effect for all threads of the process;
    within another one it begins empty, and the other one is as before afterwards.
    """
    with _standing_in(FakeJobs()) as jobs:
        yield jobs


@contextmanager
def inline(*, raise_errors: bool = True) -> Iterator[FakeJobs]:
    """Perform each job at once, where it is pushed, as a worker would; no Redis is asked.

    A job that is due later, and one that is to be tried again, waits until the clock is moved to its time, and is
    performed then.

    Args:
        raise_errors: raise what a job raises, in the place of the push; False: it goes to `retries` or `dead`.
    """
    with _standing_in(FakeJobs(performs_at_once=True, raise_errors=raise_errors)) as jobs:
        yield jobs


def drain(
    *,
    queue: str | None = None,
    job: object = None,
    limit: int | None = None,
    raise_errors: bool = True,
) -> int:
    """Perform the jobs of the `fake`, or of the server of the fixture `kiqbridge_redis`, that is in effect.

    Arguments, result and errors are those of `FakeJobs.drain`.

    Raises:
        ConfigError: none is in effect.
    """
    with _lock:
        target = _in_effect[-1] if _in_effect else None
    if target is None:
        raise ConfigError(
            "drain: no fake is in effect here; use the fixture kiqbridge_fake or kiqbridge_redis, or "
            "`with kiqbridge.testing.fake():`"
        )
    return target.drain(queue=queue, job=job, limit=limit, raise_errors=raise_errors)


@contextmanager
def drained(target: Drains) -> Iterator[None]:
    """Within, `drain` means this one."""
    with _lock:
        _in_effect.append(target)
    try:
        yield
    finally:
        with _lock:
            _in_effect.remove(target)


@contextmanager
def _standing_in(jobs: FakeJobs) -> Iterator[FakeJobs]:
    with drained(jobs):
        former: Any = use_stand_in(jobs.memory)
        former_clock = use_clock(jobs.clock.now)
        try:
            yield jobs
        finally:
            use_stand_in(former)
            use_clock(former_clock)
            jobs.close()
