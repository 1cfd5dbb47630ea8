"""Errors of our own in a processor's thread: the jobs that it holds are given back, and it goes on."""

import json
import threading

import pytest
from support.engine import EngineProcess
from support.jobs import own_declarations
from support.processors import processor_on
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import SpareClaimers
from kiqbridge.engine.inflight.lease import Lease


class TakenByTheTest:
    """A chunk; the next `take` does what the test says."""

    def __init__(self, chunk, instead):
        self.chunk = chunk
        self.instead = instead

    def take(self):
        return self.instead.pop()(self.chunk.take) if self.instead else self.chunk.take()

    def __getattr__(self, name):
        return getattr(self.chunk, name)


class HandingOut:
    """A fetcher of chunks that are `TakenByTheTest`."""

    def __init__(self, fetcher):
        self.fetcher = fetcher
        self.connection = fetcher.connection
        self.instead = []
        self.errors = []
        self.later_errors = []

    def fetch(self, most, give_up):
        if self.errors:
            raise self.errors.pop()
        chunk = self.fetcher.fetch(most, give_up)
        if chunk is not None and self.later_errors:
            raise self.later_errors.pop()
        return None if chunk is None else TakenByTheTest(chunk, self.instead)

    def __getattr__(self, name):
        return getattr(self.fetcher, name)


class Stand:
    def __init__(self, engine, redis):
        self.redis = redis
        self.done = []
        self.order_errors = []
        made = processor_on(engine, order=self.order, wrap=HandingOut)
        self.gate, self.processor = made.gate, made.processor
        self.fetcher = self.processor.fetcher

        @job(name="Note")
        def note(number):
            self.done.append(number)

    def order(self):
        if self.order_errors:
            raise self.order_errors.pop()
        return ["default"]

    def push(self, *numbers):
        texts = [
            json.dumps({"class": "Note", "args": [number], "jid": f"jid-{number}", "retry": True})
            for number in numbers
        ]
        self.redis.lpush("queue:default", *texts)

    def in_flight(self):
        lists = self.redis.keys("kb:inflight:*:[01]")
        return [text for key in lists for text in self.redis.lrange(key, 0, -1)]

    def wake(self):
        """As the waker does; False while nobody is idle."""
        return self.gate.idle and (self.gate.wake_one() or True)

    def end(self):
        self.processor.quiet()
        self.gate.open()
        self.processor.join(20)
        assert not self.processor.alive


@pytest.fixture
def stand(redis_url, redis):
    with own_declarations(), EngineProcess(redis_url) as engine:
        stand = Stand(engine, redis)
        yield stand
        stand.end()


def fail_before(_take):
    raise MemoryError


def fail_after(take):
    take()
    raise MemoryError


@pytest.mark.parametrize("fail", [fail_before, fail_after])
def test_a_job_that_cannot_be_taken_is_given_back_with_its_neighbours(stand, fail):
    stand.fetcher.instead.append(fail)
    stand.push(1, 2, 3)
    stand.processor.start()

    wait_until(lambda: sorted(stand.done) == [1, 2, 3], 30, lambda: f"all done: {stand.done}")
    assert stand.processor.alive
    wait_until(lambda: not stand.in_flight(), 30, "an acknowledgement")


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(), KeyboardInterrupt()])
def test_an_error_while_fetching_ends_no_thread(stand, error):
    stand.fetcher.errors.append(error)
    stand.push(1)
    stand.processor.start()

    wait_until(lambda: stand.done == [1], 30, "the job")
    assert stand.processor.alive


@pytest.mark.parametrize("error", [MemoryError(), SystemExit()])
def test_an_error_between_the_claim_and_its_chunk_loses_no_job(stand, error):
    stand.fetcher.later_errors.append(error)
    stand.push(1, 2, 3)
    stand.processor.start()

    wait_until(lambda: sorted(stand.done) == [1, 2, 3], 30, lambda: f"all done: {stand.done}")
    wait_until(lambda: not stand.in_flight(), 30, "an acknowledgement")


def test_an_error_in_a_claim_is_followed_by_the_same_claim(stand):
    fetcher = stand.fetcher.fetcher
    claimer = fetcher.claimer
    claimer.last = Chunk(lease=Lease("l"), queue="q", home="queue:q", list_key="l", jobs=[])
    claimer.last.share(lambda: None)  # that of another thread, to which the claimer belonged before
    claimer.last.leave()
    fetcher._spare = SpareClaimers(lambda _connection: pytest.fail("another claimer"))
    stand.fetcher.errors.append(SystemExit())
    stand.push(1)
    stand.processor.start()

    wait_until(lambda: stand.done == [1], 30, "the job")
    assert fetcher.claimer is claimer


def test_an_error_in_a_claim_leaves_the_idle_gate_right(stand):
    stand.processor.start()
    wait_until(lambda: stand.gate.idle == 1, 30, "an idle thread")

    stand.order_errors.append(MemoryError())
    stand.wake()  # it looks, and fails
    wait_until(lambda: not stand.order_errors, 30, "the failed look")
    wait_until(lambda: stand.gate.idle == 1, 30, "an idle thread again")

    stand.push(1)
    stand.wake()
    wait_until(lambda: stand.done == [1], 30, "the job")


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_thread_that_hangs_before_or_after_it_takes_a_job_hides_it_from_nobody(stand, is_taken):
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang(take):
        text = take() if is_taken else None
        hangs.set()
        may_go_on.wait(60)
        return text if is_taken else take()

    stand.fetcher.instead.append(hang)
    stand.push(1)
    stand.processor.start()
    assert hangs.wait(30)
    chunk = stand.processor.chunk

    with chunk.writing:
        chunk.revoke_unfinished()

    assert [json.loads(text)["args"] for text in chunk.returning] == [[1]]
    may_go_on.set()
    wait_until(lambda: stand.processor.chunk is not chunk, 30, "the end of the chunk")
    wait_until(lambda: stand.done.count(1) == 1 + is_taken, 30, "the job, from its queue")
    wait_until(lambda: not stand.in_flight(), 30, "an acknowledgement")
