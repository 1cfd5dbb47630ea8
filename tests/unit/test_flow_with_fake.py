"""Unique, debounced, throttled and expiring jobs with `kiqbridge.testing.fake`."""

import pytest

from kiqbridge import job
from kiqbridge.flow import Debounce, Throttle, Unique, find_owner
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        jobs.clock.freeze(at=1_700_000_000)
        yield jobs


@pytest.fixture
def done():
    return []


def declare(done, **options):
    @job(name="Work", **options)
    def work(key, fails=False):
        done.append(key)
        if fails:
            raise ValueError(key)

    return work


def outcomes(jobs):
    return [each.outcome for each in jobs.performed]


def test_a_unique_job_is_left_out_until_the_first_is_done(jobs, done):
    work = declare(done, unique=Unique())
    first = work.perform_async("a")

    assert work.perform_async("a") is None
    assert find_owner(work, "a") == first
    jobs.drain()

    assert done == ["a"]
    assert find_owner(work, "a") is None
    assert work.perform_async("a") is not None


def test_a_retry_keeps_the_lock_and_death_frees_it(jobs, done):
    work = declare(done, unique=Unique(by=("key",)), retry=1)
    work.perform_async("a", True)
    jobs.drain(raise_errors=False)

    assert work.perform_async("a") is None
    jobs.clock.move(3600)
    jobs.drain(raise_errors=False)

    assert outcomes(jobs) == ["retry", "dead"]
    assert work.perform_async("a") is not None


def test_of_debounced_jobs_the_last_one_runs(jobs, done):
    work = declare(done, debounce=Debounce(wait_s=30, by=lambda *_: 0, max_wait_s=50))
    for key in range(4):
        work.perform_async(key)
        jobs.clock.move(20)
        jobs.drain()

    assert done == [2]  # 50 s after the first push
    jobs.clock.move(30)
    jobs.drain()
    assert done == [2, 3]


def test_throttled_jobs_are_left_out_or_put_off(jobs, done):
    work = declare(done, throttle=Throttle(limit=1, per_s=60, over="later"))
    jids = [work.perform_async("a") for _ in range(3)]
    left_out = work.set(throttle=Throttle(per_s=10**6, by=("fails",)))

    assert None not in jids
    jobs.drain()
    assert done == ["a"]
    jobs.clock.move(60)
    jobs.drain()
    assert done == ["a"] * 2
    assert left_out.perform_async("b") is not None
    assert left_out.perform_async("c") is None


def test_a_job_that_is_too_old_is_not_performed(jobs, done):
    work = declare(done, expires_in=60)
    work.perform_async("a")
    jobs.clock.move(61)

    jobs.drain()

    assert done == []
    assert outcomes(jobs) == ["expired"]
