"""The pytest plugin of kiqbridge: its fixtures. What they need is imported when a test asks for one.

A package beside `kiqbridge`, since pytest imports it in each run of each project that has kiqbridge installed, and
`import kiqbridge` takes a quarter of a second.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kiqbridge.dev.embedded_server import EmbeddedServer
    from kiqbridge.testing import FakeJobs, RealJobs


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


@pytest.fixture(scope="session")
def kiqbridge_server() -> "Iterator[EmbeddedServer]":
    """The embedded Valkey, started for the session when a test asks for it; see `kiqbridge_redis`."""
    from kiqbridge.dev.embedded_server import EmbeddedServer  # noqa: PLC0415 - see the module

    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def kiqbridge_redis(
    kiqbridge_server: "EmbeddedServer", monkeypatch: pytest.MonkeyPatch
) -> "Iterator[RealJobs]":
    """A real server, empty, to which declared jobs push; needs `pip install 'kiqbridge[local]'`.

    REDIS_URL is its address while the test runs; `kiqbridge.testing.RealJobs` performs what is there.
    """
    from kiqbridge.testing import real_jobs  # noqa: PLC0415 - see the module

    kiqbridge_server.flush()
    for name in ("REDIS_PROVIDER", "REDIS_SECRET_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REDIS_URL", kiqbridge_server.url)
    with real_jobs(kiqbridge_server.url) as jobs:
        yield jobs
