"""What fails in a chunk is written together: soon, once, and before anything of it is acknowledged."""

import json
import random
import threading
import time
from contextlib import ExitStack

import pytest
from support.engine import EngineProcess, UnreliableConnection
from support.jobs import own_declarations
from support.runners import make_runner, processor_needs
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.engine.manager import Manager
from kiqbridge.errors import RedisUnavailable
from kiqbridge.inflight.outage import Outage
from kiqbridge.inflight.recovery import Reaper
from kiqbridge.perform.fetch import Fetcher
from kiqbridge.perform.look_ahead import PrefetchRevoker
from kiqbridge.perform.processor import Processor, ProcessorContext
from kiqbridge.perform.wakeup import IdleGate
from kiqbridge.settle.notifications import Notifications
from kiqbridge.settle.settling import Settler
from kiqbridge.store import scripts
from kiqbridge.wire.queues import queue_order

SETTLE = scripts.load("settle").sha


class Recording(UnreliableConnection):
    """A connection that counts settlements and loses the replies to some."""

    def __init__(self, real):
        super().__init__(real)
        self.settled = []
        self.lose_settlements = 0

    def script(self, script, keys, args, **options):
        reply = super().script(script, keys, args, **options)
        if script.sha == SETTLE:
            self.settled.append(reply)
            if len(self.settled) <= self.lose_settlements:
                raise RedisUnavailable("the reply was lost, by the test's will")
        return reply


class Stand:
    """One processor that claims a chunk of three, and whatever may reach into it."""

    def __init__(self, engine, redis):
        self.engine = engine
        self.redis = redis
        self.told = []
        self.long_begun = threading.Event()
        self.long_may_end = threading.Event()
        self.ended = []
        self.gate = IdleGate()
        self.notifications = Notifications()
        self.connection = Recording(engine.pool.connection())
        self.setup = Server()
        self.setup.error_handler(
            lambda error, context: self.told.append((str(error), context.get("job", {}).get("jid")))
        )
        settler = Settler(engine.keys)
        self.revoker = PrefetchRevoker(engine.connect(), engine.keys, settler, self.notifications)
        self.runner = make_runner(default_registry, server=self.setup)
        context = ProcessorContext(
            keeper=engine.keeper,
            runner=self.runner,
            **processor_needs(self.setup),
            revoker=self.revoker,
            outage=Outage(),
            keys=engine.keys,
            settler=settler,
            look_ahead=3,
        )
        order = queue_order([("default", 0)], random.Random(1))
        claimer = engine.claimer(connection=self.connection)
        self.processor = Processor(
            "t1", Fetcher(claimer, order, self.gate, context.outage), context
        )
        self.processor._size = 3
        self.manager = Manager(
            [self.processor], [self.gate], engine.connect(), engine.keys, self.notifications
        )

        @job(name="Fails")
        def fails():
            raise ValueError("no luck")

        @job(name="Long")
        def long():
            self.long_begun.set()
            self.long_may_end.wait(20)
            self.ended.append("long")

        @job(name="Short")
        def short():
            self.ended.append("short")

    def start(self, *names):
        texts = [
            json.dumps({"class": name, "args": [], "jid": f"{name}-{number}", "retry": True})
            for number, name in enumerate(names)
        ]
        self.redis.lpush("queue:default", *texts)
        self.processor.start()

    def end(self):
        self.long_may_end.set()
        self.manager.quiet()
        self.processor.join(10)
        self.revoker.stop()
        assert not self.processor.alive

    def retried(self):
        return sorted(json.loads(text)["jid"] for text in self.redis.zrange("retry", 0, -1))

    def queued(self):
        return [json.loads(text)["jid"] for text in self.redis.lrange("queue:default", 0, -1)[::-1]]

    def in_flight(self):
        lists = self.redis.keys("kb:inflight:*:[01]")
        return [json.loads(text)["jid"] for key in lists for text in self.redis.lrange(key, 0, -1)]


@pytest.fixture
def stand(redis, redis_url):
    with ExitStack() as stack:
        stack.enter_context(own_declarations())
        stand = Stand(stack.enter_context(EngineProcess(redis_url)), redis)
        stack.callback(stand.end)
        yield stand


def test_they_are_written_in_one_script_and_acknowledged_by_it(stand):
    stand.start("Fails", "Short", "Fails")

    wait_until(lambda: len(stand.told) == 2)

    assert stand.connection.settled == [[1, 1]]
    assert stand.retried() == ["Fails-0", "Fails-2"]
    wait_until(lambda: not stand.in_flight())
    assert stand.ended == ["short"]
    assert (stand.processor.processed, stand.processor.failed) == (3, 2)


def test_a_lost_reply_gives_none_a_second_life(stand, caplog):
    stand.connection.lose_settlements = 1
    stand.start("Fails", "Fails", "Short")

    wait_until(lambda: stand.ended and not stand.in_flight())

    assert stand.connection.settled == [[1, 1], [0, 0]]
    assert stand.retried() == ["Fails-0", "Fails-1"]
    assert "2 failed jobs were not ours any more" in caplog.text


def test_those_before_a_long_job_are_written_and_told_while_it_runs(stand):
    stand.revoker.processors = [stand.processor]
    stand.revoker.start()
    stand.start("Fails", "Long", "Short")
    assert stand.long_begun.wait(10)

    wait_until(lambda: stand.told)

    assert stand.retried() == ["Fails-0"]
    assert stand.told == [("no luck", "Fails-0")]
    assert stand.ended == []
    stand.long_may_end.set()
    wait_until(lambda: sorted(stand.ended) == ["long", "short"])
    wait_until(lambda: not stand.in_flight())
    assert stand.connection.settled == []  # the prefetch revoker's own connection did it
    assert len(stand.told) == 1


def test_at_the_deadline_they_are_written_before_the_rest_is_acknowledged(stand):
    stand.start("Fails", "Long", "Short")
    assert stand.long_begun.wait(10)
    assert stand.retried() == []  # nobody guards here

    stopping = threading.Thread(target=stand.manager.stop, args=(time.monotonic(),))
    stopping.start()
    wait_until(stand.retried)
    stand.long_may_end.set()
    stopping.join(10)

    assert stand.retried() == ["Fails-0"]
    assert stand.queued() == ["Long-1", "Short-2"]
    assert stand.in_flight() == []
    wait_until(lambda: stand.told == [("no luck", "Fails-0")])


def test_at_the_deadline_what_cannot_be_written_stays_in_flight(stand, redis):
    redis.set("retry", "no sorted set")
    stand.start("Fails", "Long", "Short")
    assert stand.long_begun.wait(10)

    stopping = threading.Thread(target=stand.manager.stop, args=(time.monotonic(),))
    stopping.start()
    wait_until(lambda: len(stand.queued()) == 2)
    wait_until(stand.processor._abandoned.is_set)
    stand.long_may_end.set()
    stopping.join(10)

    assert stand.queued() == ["Long-1", "Short-2"]
    assert stand.in_flight() == ["Fails-0"]
    assert stand.told == []


def test_given_to_others_meanwhile_they_have_one_life(stand, redis, caplog):
    stand.start("Fails", "Long", "Short")
    assert stand.long_begun.wait(10)
    stand.processor.quiet()
    reaper = Reaper(stand.engine.connect(), stand.engine.keys)
    redis.hdel(stand.engine.keys.alive, stand.engine.incarnation)

    assert reaper.reap(stand.engine.incarnation) == 3
    stand.long_may_end.set()
    stand.processor.join(10)

    assert stand.queued() == ["Fails-0", "Long-1", "Short-2"]
    assert stand.retried() == []
    assert stand.told == []
    assert "1 failed jobs were not ours any more" in caplog.text


def test_an_error_of_ours_in_the_midst_of_a_chunk_loses_none_of_them(stand, monkeypatch):
    read, failures = stand.runner.read, iter([RuntimeError("ours")])

    def fail_once(text, queue):
        if b"Short" in text:
            for failure in failures:
                raise failure
        return read(text, queue)

    monkeypatch.setattr(stand.runner, "read", fail_once)
    stand.start("Fails", "Short", "Fails")

    wait_until(lambda: stand.retried() == ["Fails-0", "Fails-2"] and stand.ended == ["short"])

    wait_until(lambda: not stand.in_flight())
    assert sorted(jid for error, jid in stand.told if error == "no luck") == ["Fails-0", "Fails-2"]
