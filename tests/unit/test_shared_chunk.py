"""When a thread may leave a chunk whose `async def` jobs run on the event loop."""

from collections import deque
from types import SimpleNamespace

import pytest

from kiqbridge.claims import Chunk, Elsewhere
from kiqbridge.errors import Shutdown
from kiqbridge.lease import Lease
from kiqbridge.processor import Processor


class Fetcher:
    """Frees the claimer as the real one does."""

    def part_with(self, chunk):
        chunk.elsewhere.release()


@pytest.fixture
def processor():
    tools = SimpleNamespace(bookkeeper=None, loop=None, processes=None, runtime=None)
    return Processor("t1", Fetcher(), tools)


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
        jobs=deque([b"unbegun"]),
        size=2,
    )
    chunk.elsewhere = Elsewhere("claimer", freed.append)
    chunk.elsewhere.hold()
    chunk.elsewhere.release()  # the job on the loop has been acknowledged
    return chunk


def test_a_thread_that_is_done_frees_its_claimer(processor, chunk, freed, monkeypatch):
    monkeypatch.setattr(processor, "_work", lambda chunk: chunk.jobs.clear())

    processor._work_safely(chunk)

    assert freed == ["claimer"]


def test_one_that_is_shut_down_does_not_since_jobs_may_be_left(
    processor, chunk, freed, monkeypatch
):
    def shut_down(_chunk):
        raise Shutdown

    monkeypatch.setattr(processor, "_work", shut_down)

    with pytest.raises(Shutdown):
        processor._work_safely(chunk)

    assert freed == []
