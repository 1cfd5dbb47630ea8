"""What tests of several modules need that ask no server."""

from collections.abc import Iterator

import pytest
from support.runners import RunnerStand
from support.stacks import installed_library, running_threads


@pytest.fixture
def runner() -> Iterator[RunnerStand]:
    runner = RunnerStand()
    yield runner
    runner.close()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed package."""
    with installed_library(tmp_path, monkeypatch) as module:
        yield module


@pytest.fixture
def running():
    """`running(function, *args)` runs it on a thread; the state has its ident and what it raised."""
    with running_threads() as start:
        yield start
