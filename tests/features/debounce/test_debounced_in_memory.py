"""Debounced and throttled jobs in `kiqbridge.testing`."""

import pytest
from support.jobs import declare_work

from kiqbridge.flow import Debounce, Throttle
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        jobs.clock.freeze(at=1_700_000_000)
        yield jobs


def test_of_debounced_jobs_the_last_one_runs(jobs, seen):
    work = declare_work(seen, debounce=Debounce(wait_s=30, by=lambda *_: 0, max_wait_s=50))
    for key in range(4):
        work.perform_async(key)
        jobs.clock.move(20)
        jobs.drain()

    assert seen == [2]  # 50 s after the first push
    jobs.clock.move(30)
    jobs.drain()
    assert seen == [2, 3]


def test_throttled_jobs_are_left_out_or_put_off(jobs, seen):
    work = declare_work(seen, throttle=Throttle(limit=1, per_s=60, over="later"))
    jids = [work.perform_async("a") for _ in range(3)]
    left_out = work.set(throttle=Throttle(per_s=10**6, by=("fails",)))

    assert None not in jids
    jobs.drain()
    assert seen == ["a"]
    jobs.clock.move(60)
    jobs.drain()
    assert seen == ["a"] * 2
    assert left_out.perform_async("b") is not None
    assert left_out.perform_async("c") is None
