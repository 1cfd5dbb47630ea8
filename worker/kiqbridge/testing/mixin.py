"""`fake` for unittest: a mixin that begins one for each test, and assertions in unittest's spelling."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

from kiqbridge.testing.fake_jobs import TOLERANCE_S, FakeJobs
from kiqbridge.testing.modes import fake
from kiqbridge.testing.recorded import PerformedJob, RecordedJob


class FakeJobsMixin:
    """Record the jobs of each test; to be named before `unittest.TestCase`, or Django's.

        class SignUp(FakeJobsMixin, unittest.TestCase): ...

    Attributes:
        jobs: those of this test.
    """

    jobs: FakeJobs

    def setUp(self) -> None:
        """Begin; call it from a `setUp` of your own."""
        with ExitStack() as opening:
            self.jobs = opening.enter_context(fake())
            self._end = opening.pop_all()
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

    def assertEnqueued(  # noqa: N802 - unittest's spelling, and `FakeJobs.assert_enqueued`
        self,
        job: object,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        at: datetime | float | None = None,
        in_: timedelta | float | None = None,
        count: int | None = None,
        tolerance_s: float = TOLERANCE_S,
    ) -> RecordedJob:
        """See `FakeJobs.assert_enqueued`."""
        __tracebackhide__ = True
        return self.jobs.assert_enqueued(
            job,
            args=args,
            kwargs=kwargs,
            queue=queue,
            at=at,
            in_=in_,
            count=count,
            tolerance_s=tolerance_s,
        )

    def assertNotEnqueued(  # noqa: N802 - as above
        self,
        job: object = None,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
    ) -> None:
        """See `FakeJobs.assert_not_enqueued`."""
        __tracebackhide__ = True
        self.jobs.assert_not_enqueued(job, args=args, kwargs=kwargs, queue=queue)

    def assertEnqueuedCount(  # noqa: N802 - as above
        self, count: int, job: object = None, *, queue: str | None = None
    ) -> None:
        """See `FakeJobs.assert_enqueued_count`."""
        __tracebackhide__ = True
        self.jobs.assert_enqueued_count(count, job, queue=queue)

    def assertPerformed(  # noqa: N802 - as above
        self,
        job: object,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        count: int | None = None,
    ) -> PerformedJob:
        """See `FakeJobs.assert_performed`."""
        __tracebackhide__ = True
        return self.jobs.assert_performed(job, args=args, kwargs=kwargs, count=count)
