"""The pytest plugin of kiqbridge: its fixtures. What they need is imported when a test asks for one.

A package beside `kiqbridge`, since pytest imports it in each run of each project that has kiqbridge installed, and
`import kiqbridge` takes a quarter of a second.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kiqbridge.testing import FakeJobs


@pytest.fixture
def kiqbridge_fake() -> "Iterator[FakeJobs]":
    """Jobs are recorded in memory instead of being pushed to Redis; see `kiqbridge.testing.FakeJobs`."""
    from kiqbridge.testing import fake  # noqa: PLC0415 - see the module

    with fake() as jobs:
        yield jobs


@pytest.fixture
def kiqbridge_inline() -> "Iterator[FakeJobs]":
    """Jobs are performed at once, where they are pushed; see `kiqbridge.testing.inline`."""
    from kiqbridge.testing import inline  # noqa: PLC0415 - see the module

    with inline() as jobs:
        yield jobs
