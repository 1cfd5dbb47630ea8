"""Unique jobs in `kiqbridge.testing`."""

import pytest
from support.jobs import declare_work, outcomes

from kiqbridge.flow import Unique, find_owner
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        jobs.clock.freeze(at=1_700_000_000)
        yield jobs


def test_a_unique_job_is_left_out_until_the_first_is_done(jobs, seen):
    work = declare_work(seen, unique=Unique())
    first = work.perform_async("a")

    assert work.perform_async("a") is None
    assert find_owner(work, "a") == first
    jobs.drain()

    assert seen == ["a"]
    assert find_owner(work, "a") is None
    assert work.perform_async("a") is not None


def test_a_retry_keeps_the_lock_and_death_frees_it(jobs, seen):
    work = declare_work(seen, unique=Unique(by=("key",)), retry=1)
    work.perform_async("a", True)
    jobs.drain(raise_errors=False)

    assert work.perform_async("a") is None
    jobs.clock.move(3600)
    jobs.drain(raise_errors=False)

    assert outcomes(jobs) == ["retry", "dead"]
    assert work.perform_async("a") is not None


def test_one_that_was_replaced_is_skipped(jobs, seen):
    work = declare_work(seen, unique=Unique(by=("fails",), on_conflict="replace"))
    work.perform_async("old")
    work.perform_async("new")
    jobs.drain()

    assert seen == ["new"]
    assert outcomes(jobs) == ["skipped", "done"]
