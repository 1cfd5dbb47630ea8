"""What fails in a chunk is written together: soon, once, and before anything of it is acknowledged."""

import json
import threading
from contextlib import ExitStack

import pytest
from support.engine import EngineProcess, UnreliableConnection
from support.jobs import own_declarations
from support.processors import processor_on
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.client.server import Server
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import scripts

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
        self.connection = Recording(engine.pool.connection())
        server = Server()
        server.error_handler(
            lambda error, context: self.told.append((str(error), context.get("job", {}).get("jid")))
        )
        made = processor_on(engine, server=server, connection=self.connection)
        self.processor, self.manager = made.processor, made.manager
        self.revoker, self.runner = made.revoker, made.runner

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
    assert "2 ended jobs belong to other workers now" in caplog.text


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
    assert "1 ended jobs belong to other workers now" in caplog.text


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
