"""`fake` for unittest: a mixin that begins one for each test, and assertions in unittest's spelling."""

from contextlib import ExitStack
from typing import Unpack

from kiqbridge.testing.asking import Wanted, WantedCall
from kiqbridge.testing.fake_jobs import FakeJobs
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
        self, job: object, *, count: int | None = None, **wanted: Unpack[Wanted]
    ) -> RecordedJob:
        """See `FakeJobs.assert_enqueued`."""
        __tracebackhide__ = True
        return self.jobs.assert_enqueued(job, count=count, **wanted)

    def assertNotEnqueued(self, job: object = None, **wanted: Unpack[Wanted]) -> None:  # noqa: N802 - as above
        """See `FakeJobs.assert_not_enqueued`."""
        __tracebackhide__ = True
        self.jobs.assert_not_enqueued(job, **wanted)

    def assertEnqueuedCount(  # noqa: N802 - as above
        self, count: int, job: object = None, *, queue: str | None = None
    ) -> None:
        """See `FakeJobs.assert_enqueued_count`."""
        __tracebackhide__ = True
        self.jobs.assert_enqueued_count(count, job, queue=queue)

    def assertPerformed(  # noqa: N802 - as above
        self, job: object, *, count: int | None = None, **wanted: Unpack[WantedCall]
    ) -> PerformedJob:
        """See `FakeJobs.assert_performed`."""
        __tracebackhide__ = True
        return self.jobs.assert_performed(job, count=count, **wanted)
