"""Iterable jobs in tests of users: in memory, on a real server, and by their handles."""

import time
from collections.abc import Iterator
from datetime import date

import pytest

from kiqbridge import IterableJob, PayloadError, job
from kiqbridge.testing import fake, real_jobs

pytestmark = pytest.mark.usefixtures("own_jobs")

DAY = date(2026, 1, 1)


@pytest.fixture
def jobs():
    with fake() as jobs:
        yield jobs


def test_an_iterable_job_goes_on_at_its_cursor(jobs, seen):
    class Count(IterableJob):
        def build_enumerator(self, end, *, cursor):
            return ((number, number) for number in range(cursor or 0, end))

        def each_iteration(self, number, _end):
            seen.append(number)
            if seen == [0, 1, 2]:
                raise OSError("once")

    jid = Count.perform_async(4)
    jobs.drain(raise_errors=False)
    assert jobs.memory.values[f"it-{jid}"]

    jobs.clock.move(minutes=1)
    jobs.drain()

    assert seen == [0, 1, 2, 2, 3]
    assert f"it-{jid}" not in jobs.memory.values


@pytest.mark.any_server
def test_an_iterable_job_keeps_its_progress_on_the_server(redis_url, redis, seen):
    class Count(IterableJob):
        def build_enumerator(self, end, *, cursor):
            return ((number, number) for number in range(cursor or 0, end))

        def each_iteration(self, number, _end):
            seen.append(number)
            if seen == [0, 1]:
                raise OSError("once")

    with real_jobs(redis_url) as jobs:
        jid = Count.perform_async(3)
        jobs.drain(raise_errors=False)
        assert redis.hget(f"it-{jid}", "c") == b"1"
        [(member, _)] = redis.zscan_iter("retry")
        redis.zadd("retry", {member: time.time() - 1})

        jobs.drain()

        assert seen == [0, 1, 1, 2]
        assert redis.exists(f"it-{jid}") == 0


def test_an_iteration_that_pushes_a_job_does_not_wait_for_it(jobs):
    @job
    def double(number):
        return 2 * number

    class Doubles(IterableJob):
        def build_enumerator(self, *, cursor: int | None):
            yield from ((number, number) for number in range(3))

        def each_iteration(self, item: int) -> object:
            return double.perform_async(item)

    Doubles.perform_inline()

    assert len(jobs.enqueued(double)) == 3


def test_an_iterable_job_is_asked_to_end(jobs):
    class Endless(IterableJob):
        def build_enumerator(self, *, cursor: int | None):
            yield from ((1, 1) for _ in iter(int, 1))

        def each_iteration(self, item: int) -> None:
            pass

    handle = Endless.perform_async()

    assert handle.cancel() == handle.cancel() > 0
    jobs.drain()
    assert handle.status() == "unknown"


def test_an_iterable_job_gets_them_back_in_both_methods(jobs, seen):
    class Import(IterableJob):
        def build_enumerator(self, day: date, *, cursor: int | None) -> Iterator[tuple[int, int]]:
            seen.append(day)
            yield 1, 1

        def each_iteration(self, item: int, day: date) -> None:
            seen.append(day)

    Import.perform_inline(DAY)

    assert seen == [DAY, DAY]
    with pytest.raises(PayloadError, match="day of Import: expected date"):
        Import.perform_async(5)


def test_an_iterable_job_takes_what_its_methods_take_without_item_and_cursor(jobs):
    class Import(IterableJob):
        def build_enumerator(self, path: str, limit: int = 5, *, cursor: int | None):
            yield path, limit

        def each_iteration(self, item: str, path: str, limit: int = 5) -> None:
            pass

    Import.perform_async("users.csv", limit=7)
    Import.perform_bulk([Import.with_args("more.csv"), ("other.csv", 8)])

    assert [each.args for each in jobs.enqueued(Import)] == [
        ["users.csv", 7],
        ["more.csv"],
        ["other.csv", 8],
    ]
    with pytest.raises(PayloadError, match="cursor"):
        Import.perform_async("users.csv", cursor=3)
