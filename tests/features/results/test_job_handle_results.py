"""A job's handle: how the job has ended, and what it returned."""

import asyncio

import pytest

from kiqbridge import configure, job
from kiqbridge.errors import JobFailed, PayloadError, ResultTimeout
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        yield jobs


@pytest.fixture
def double(jobs):
    @job(name="Double", result_ttl=60)
    def double(number: int) -> int:
        if number < 0:
            raise ValueError("no luck")
        return 2 * number

    return double


def test_it_says_where_the_job_is_and_how_it_has_ended(jobs, double):
    @job(name="Broken", retry=1)
    def broken() -> None:
        raise ValueError("no luck")

    now, later, failing = double.perform_async(1), double.perform_in(60, 2), broken.perform_async()
    assert [each.status() for each in (now, later, failing)] == ["queued", "scheduled", "queued"]
    assert now.job().args == [1]

    jobs.drain(raise_errors=False)

    assert [each.status() for each in (now, later, failing)] == ["done", "scheduled", "retrying"]
    assert now.job() is None
    assert failing.job().error_message == "no luck"
    jobs.clock.move(hours=1)
    jobs.drain(raise_errors=False)
    assert [each.status() for each in (later, failing)] == ["done", "dead"]
    assert failing.job().delete()
    assert failing.status() == "deleted"


def test_the_result_can_be_had_and_awaited(jobs, double):
    handle, failing = double.perform_async(21), double.set(retry=0).perform_async(-1)
    with pytest.raises(ResultTimeout):
        handle.result(timeout=0)

    async def awaited():
        waiting = asyncio.gather(handle, failing, return_exceptions=True)
        await asyncio.to_thread(jobs.drain, raise_errors=False)
        return await waiting

    value, error = asyncio.run(awaited())

    assert value == handle.result() == 42
    assert isinstance(error, JobFailed)
    assert failing.status() == "dead"


def test_a_jid_that_is_none_has_no_result():
    client = configure("redis://nowhere.invalid:1/0")

    with pytest.raises(PayloadError, match="is no job's id"):
        client.handle("").result(timeout=0)
