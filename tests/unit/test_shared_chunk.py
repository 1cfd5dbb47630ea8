"""When a thread may leave a chunk whose `async def` jobs run on the event loop."""

import threading
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge.errors import Shutdown
from kiqbridge.inflight.chunk import Chunk
from kiqbridge.inflight.lease import Lease
from kiqbridge.perform.processor import Processor, ProcessorContext


class OneChunk:
    """A fetcher of one chunk; it frees the claimer as the real one does."""

    connection = None
    has_fetched = True
    refused = None

    def __init__(self, chunk):
        self.chunks = [chunk]
        self.acknowledged = threading.Event()

    def fetch(self, _most, give_up):
        if self.chunks:
            return self.chunks.pop()
        give_up.wait(0.01)
        return None

    def leave(self, chunk):
        chunk.leave()

    def acknowledge(self, _give_up):
        self.acknowledged.set()


class Finishes:
    """A runner whose jobs succeed, or end with this error."""

    def __init__(self, error=None):
        self.error = error

    def read(self, _text, _queue):
        return SimpleNamespace(definition=None, payload={}, run=None, is_watched=False)

    def perform(self, _execution, thread):
        if self.error is not None:
            thread.interrupt()
            raise self.error


@pytest.fixture
def freed():
    return []


@pytest.fixture
def chunk(freed):
    chunk = Chunk(
        lease=Lease("v1:host:1:a:1"),
        queue="default",
        home="queue:default",
        list_key="list",
        jobs=[b"here", b"on the loop"],
    )
    chunk.lease.valid_until = float("inf")
    chunk.share(lambda: freed.append("claimer"))
    chunk.take()
    chunk.hold()
    chunk.hand_over()
    chunk.release()  # the job on the loop has been acknowledged
    return chunk


class Bookkeeper:
    """Acknowledges at once."""

    def ended(self, chunk, _text, _settlement):
        chunk.release()


def processor_of(chunk, runner):
    context = ProcessorContext(
        keeper=None,
        runner=runner,
        timekeeper=None,
        handlers=None,
        revoker=SimpleNamespace(watch=lambda: None),
        outage=None,
        keys=None,
        settler=None,
        look_ahead=2,
        bookkeeper=Bookkeeper(),
    )
    return Processor("t1", OneChunk(chunk), context)


def test_a_thread_that_is_done_frees_its_claimer(chunk, freed):
    processor = processor_of(chunk, Finishes())

    processor.start()
    wait_until(lambda: freed)
    processor.quiet()
    processor.join(10)

    assert freed == ["claimer"]
    assert processor.chunk is None


def test_one_that_is_shut_down_does_not_since_jobs_may_be_left(chunk, freed):
    processor = processor_of(chunk, Finishes(Shutdown()))

    processor.start()
    processor.join(10)

    assert not processor.alive
    assert freed == []
