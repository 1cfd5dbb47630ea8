"""Testing code that enqueues jobs, and the jobs themselves: `fake`, `inline`, `drain`, `real_jobs`.

Tests of users call it: by the pytest fixtures `kiqbridge_fake`, `kiqbridge_inline` and `kiqbridge_redis`, by
`FakeJobsMixin` for unittest, or directly. It must never be imported by what runs in production.

    from kiqbridge.testing import fake

    with fake() as jobs:
        checkout(order)
        jobs.assert_enqueued(send_invoice, args=[order.id])
        jobs.drain()
"""

from kiqbridge.testing.fake_jobs import FakeJobs
from kiqbridge.testing.memory_commands import NotInMemory
from kiqbridge.testing.modes import FakeJobsMixin, drain, fake, inline, override
from kiqbridge.testing.performing import EndlessJobs
from kiqbridge.testing.recorded import PerformedJob, RecordedJob
from kiqbridge.testing.server_jobs import RealJobs, real_jobs
from kiqbridge.testing.virtual_clock import VirtualClock

__all__ = [
    "EndlessJobs",
    "FakeJobs",
    "FakeJobsMixin",
    "NotInMemory",
    "PerformedJob",
    "RealJobs",
    "RecordedJob",
    "VirtualClock",
    "drain",
    "fake",
    "inline",
    "override",
    "real_jobs",
]
