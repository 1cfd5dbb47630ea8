"""What a job knows of itself."""

import pytest

from kiqbridge import current_job, job
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_tasks")


def test_a_function_knows_its_jid_its_queue_and_its_attempt():
    seen = []

    @job(queue="low", retry=1)
    def plain():
        seen.append(current_job())
        raise OSError

    @job
    async def awaited():
        seen.append(current_job())

    with fake() as jobs:
        jid = plain.perform_async()
        jobs.drain(raise_errors=False)
        jobs.clock.move(minutes=5)
        jobs.drain(raise_errors=False)
        other = awaited.perform_async()
        jobs.drain()

    assert [(each.jid, each.job_class, each.queue, each.attempt) for each in seen] == [
        (jid, "plain", "low", 1), (jid, "plain", "low", 2), (other, "awaited", "default", 1),
    ]  # fmt: skip
    assert current_job() is None


@pytest.mark.parametrize("is_async", [False, True])
def test_inline_as_well(is_async):
    async def awaited():
        return current_job()

    def plain():
        return current_job()

    declared = job(awaited if is_async else plain)

    assert declared.set(jid="a" * 24).perform_inline().jid == "a" * 24
    assert current_job() is None
