"""The event loop on which `async def` jobs of a test run."""

import asyncio

import pytest

from kiqbridge.client.server import LoopResources
from kiqbridge.testing.loop_thread import LoopThread


@pytest.fixture
def thread():
    thread = LoopThread(LoopResources([]))
    yield thread
    thread.loop.set_task_factory(None)
    thread.close()


def test_a_task_that_is_cancelled_before_it_begins_ends_the_wait(thread):
    def cancelled(loop, coroutine, **options):
        task = asyncio.Task(coroutine, loop=loop, **options)
        task.cancel()
        return task

    thread.loop.set_task_factory(cancelled)
    work = asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError, match="before it began"):
        thread.run(work)

    work.close()
