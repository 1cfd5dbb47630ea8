"""What tests of several modules need that ask no server."""

from collections.abc import Iterator

import pytest
from support.runners import RunnerStand


@pytest.fixture
def runner() -> Iterator[RunnerStand]:
    runner = RunnerStand()
    yield runner
    runner.close()
