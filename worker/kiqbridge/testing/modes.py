"""Switching a process to recorded jobs: `fake`, `inline`, and `drain` for what is in effect.

`FakeJobsMixin` is `fake` for unittest, with assertions in unittest's spelling.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypedDict, Unpack

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.clock import use_clock
from kiqbridge.store.redis_pool import use_stand_in
from kiqbridge.testing.fake_jobs import FakeJobs


class DrainOptions(TypedDict, total=False):
    """The arguments of `FakeJobs.drain`."""

    queue: str | None
    job: object
    limit: int | None
    raise_errors: bool


class Drains(Protocol):
    """What `drain` calls: that of a fake, or of a real server."""

    def drain(self, **options: Unpack[DrainOptions]) -> int:
        """Perform the jobs that wait, and those that they enqueue; how many. The options are those of `FakeJobs.drain`."""


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


def drain(**options: Unpack[DrainOptions]) -> int:
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
    return target.drain(**options)


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


class FakeJobsMixin:
    """Record the jobs of each test; to be named before `unittest.TestCase`, or Django's.

        class SignUp(FakeJobsMixin, unittest.TestCase): ...

    Attributes:
        jobs: those of this test; `assertEnqueued`, `assertNotEnqueued`, `assertEnqueuedCount` and `assertPerformed`
            are its assertions.
    """

    jobs: FakeJobs

    def setUp(self) -> None:
        """Begin; call it from a `setUp` of your own."""
        with ExitStack() as opening:
            self.jobs = opening.enter_context(fake())
            self._end = opening.pop_all()
        # In unittest's spelling.
        self.assertEnqueued = self.jobs.assert_enqueued
        self.assertNotEnqueued = self.jobs.assert_not_enqueued
        self.assertEnqueuedCount = self.jobs.assert_enqueued_count
        self.assertPerformed = self.jobs.assert_performed
        try:
            super().setUp()  # type: ignore[misc] # that of the test case
        except BaseException:
            self._end.close()  # tearDown is not called
            raise

    def tearDown(self) -> None:
        """End; call it from a `tearDown` of your own."""
        try:
            super().tearDown()  # type: ignore[misc] # as above
        finally:
            self._end.close()
