"""Testing code that enqueues jobs, and the jobs themselves: `fake`, `inline`, `drain`, `real_jobs`.

Tests of users call it: by the pytest fixtures `kiqbridge_fake`, `kiqbridge_inline` and `kiqbridge_redis`, by
`FakeJobsMixin` for unittest, or directly. It must never be imported by what runs in production.

    from kiqbridge.testing import fake

    with fake() as jobs:
        checkout(order)
        jobs.assert_enqueued(send_invoice, args=[order.id])
        jobs.drain()
"""

from typing import TYPE_CHECKING, Any

from kiqbridge.testing.fake_jobs import FakeJobs
from kiqbridge.testing.memory_commands import NotInMemory
from kiqbridge.testing.modes import FakeJobsMixin, drain, fake, inline
from kiqbridge.testing.performing import EndlessJobs
from kiqbridge.testing.recorded import PerformedJob, RecordedJob
from kiqbridge.testing.server_jobs import RealJobs, real_jobs
from kiqbridge.testing.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from kiqbridge.features.depends.override import override

_OF_FEATURES: dict[str, str] = {
    "override": "kiqbridge.features.depends.override",
}
"""Names that features bring: the module of each, a line for each feature, which is left out with it."""

__all__ = [
    "EndlessJobs", "FakeJobs", "FakeJobsMixin", "NotInMemory", "PerformedJob", "RealJobs",
    "RecordedJob", "VirtualClock", "drain", "fake", "inline", "override", "real_jobs",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if (home := _OF_FEATURES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - its name shall not be one of this package

    return getattr(import_module(home), name)
