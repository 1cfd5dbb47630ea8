"""Errors of our own in a processor's thread: the jobs that it holds are given back, and it goes on."""

import json
import random
import threading
import time
from collections import deque

import pytest
from support.engine import EngineProcess
from support.jobs import own_declarations
from support.waiting import wait_until

from kiqbridge.execution import JobRunner
from kiqbridge.fetch import Fetcher, Outage
from kiqbridge.job import job
from kiqbridge.look_ahead import Guardian
from kiqbridge.middleware import Chain
from kiqbridge.notifications import Notifications
from kiqbridge.processor import Processor, Tools
from kiqbridge.registry import default_registry
from kiqbridge.retry import RetryPolicy
from kiqbridge.settling import Settler
from kiqbridge.wakeup import IdleGate


class Jobs(deque):
    """The jobs of a chunk; the next `pop` does what the test says."""

    def __init__(self, jobs, instead):
        super().__init__(jobs)
        self.instead = instead

    def pop(self):
        return self.instead.pop()(super().pop) if self.instead else super().pop()


class HandingOut:
    """A fetcher whose chunks hold `Jobs`."""

    def __init__(self, fetcher):
        self.fetcher = fetcher
        self.connection = fetcher.connection
        self.instead = []
        self.errors = []

    def fetch(self, most, give_up):
        if self.errors:
            raise self.errors.pop()
        chunk = self.fetcher.fetch(most, give_up)
        if chunk is not None:
            chunk.jobs = Jobs(chunk.jobs, self.instead)
        return chunk

    def __getattr__(self, name):
        return getattr(self.fetcher, name)


class Stand:
    def __init__(self, engine, redis):
        self.redis = redis
        self.done = []
        self.gate = IdleGate()
        self.order_errors = []
        notifications = Notifications()
        settler = Settler(engine.keys, lambda now: (now - 60, 10))
        tools = Tools(
            keeper=engine.keeper,
            runner=JobRunner(
                registry=default_registry,
                middleware=Chain(),
                policy=lambda: RetryPolicy(max_retries=25, profile="7"),
                rng=random.Random(1),
            ),
            guardian=Guardian(engine.connect(), engine.keys, settler, notifications),
            outage=Outage(),
            keys=engine.keys,
            settler=settler,
            look_ahead=3,
        )
        self.fetcher = HandingOut(Fetcher(engine.claimer(), self.order, self.gate, tools.outage))
        self.processor = Processor("t1", self.fetcher, tools)
        self.processor._size = 3

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


def fail(_pop):
    raise MemoryError


def test_a_job_that_cannot_be_taken_is_given_back_with_its_neighbours(stand):
    stand.fetcher.instead.append(fail)
    stand.push(1, 2, 3)
    stand.processor.start()

    wait_until(lambda: sorted(stand.done) == [1, 2, 3], 30, lambda: f"all done: {stand.done}")
    assert stand.processor.alive
    assert stand.processor.unfinished() == []


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(), KeyboardInterrupt()])
def test_an_error_while_fetching_ends_no_thread(stand, error):
    stand.fetcher.errors.append(error)
    stand.push(1)
    stand.processor.start()

    wait_until(lambda: stand.done == [1], 30, "the job")
    assert stand.processor.alive


def test_an_error_in_a_claim_leaves_the_idle_gate_right(stand):
    stand.processor.start()
    wait_until(lambda: stand.gate.idle == 1, 30, "an idle thread")

    stand.order_errors.append(MemoryError())
    stand.wake()  # it looks, and fails
    wait_until(lambda: not stand.order_errors, 30, "the failed look")
    wait_until(lambda: stand.gate.idle == 1, 30, "an idle thread again")
    waker = threading.Thread(target=stand.gate.wait_for_idle, daemon=True)
    waker.start()
    waker.join(10)

    assert not waker.is_alive()  # the waker goes on, since nobody is said to be looking
    stand.push(1)
    stand.wake()
    wait_until(lambda: stand.done == [1], 30, "the job")


def test_a_thread_that_does_not_say_what_it_took_holds_up_no_stop(stand):
    may_go_on = threading.Event()

    def hang(pop):
        may_go_on.wait(60)
        return pop()

    stand.fetcher.instead.append(hang)
    stand.push(1)
    stand.processor.start()
    wait_until(lambda: stand.processor.chunk is not None and not stand.fetcher.instead, 30, "it")

    began = time.monotonic()
    unfinished = stand.processor.unfinished()

    assert len(unfinished) == 1  # waiting in the chunk: it was not taken yet
    assert time.monotonic() - began < 20
    may_go_on.set()
    wait_until(lambda: stand.processor.chunk is None, 30, "the end of the chunk")
