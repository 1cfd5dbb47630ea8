"""When a thread may leave a chunk whose `async def` jobs run on the event loop."""

import threading
from types import SimpleNamespace

import pytest
from support.jobs import own_declarations
from support.one_chunk import Stand

from kiqbridge.client.job import job
from kiqbridge.engine.perform.processor import Processor
from kiqbridge.errors import Shutdown


@pytest.fixture
def stand():
    """Its first job was handed over to the loop, and has been acknowledged there."""
    stand = Stand("OnTheLoop", "Here")
    stand.freed = threading.Event()
    at_once = SimpleNamespace(ended=lambda chunk, _text, _settlement: chunk.release())
    context = stand.context._replace(bookkeeper=at_once)
    stand.processor = Processor("t1", stand.fetcher, context)
    stand.fetcher.leave = lambda chunk: chunk.leave()  # as the real one frees the claimer
    stand.chunk.share(stand.freed.set)
    stand.chunk.take()
    stand.chunk.hold()
    stand.chunk.hand_over()
    stand.chunk.release()
    with own_declarations():
        yield stand


def test_a_thread_that_is_done_frees_its_claimer(stand):
    job(name="Here")(lambda: None)
    stand.processor.start()
    assert stand.freed.wait(30)
    stand.end()
    assert stand.processor.chunk is None


def test_one_that_is_shut_down_does_not_since_jobs_may_be_left(stand):
    @job(name="Here")
    def here():
        stand.processor.interrupt()
        raise Shutdown

    stand.processor.start()
    stand.processor.join(30)
    assert not stand.processor.alive
    assert not stand.freed.is_set()
