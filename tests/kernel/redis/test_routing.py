"""Jobs that do not run here: put off, passed on or refused, in one step and byte for byte."""

import json
import random

import pytest
from support.jobs import own_declarations
from support.runners import make_runner

from kiqbridge import job
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.perform.gate import Gate
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.settling import Settler, repush
from kiqbridge.errors import RedisRefused

NOW = 1_700_000_000.0
# Odd on purpose: an order, a blank and a number that a writer of ours would not keep.
JOB = b'{"class":"Mail","jid":"j1","args":[ 1e2, 18446744073709551616],"retry":true,"queue":"default","odd":{}}'
BATCH_JOB = JOB.replace(b'"odd":{}', b'"bid":"b1","dead":false')


class Paused:
    def __init__(self, *classes):
        self.classes = frozenset(classes)


class Engine:
    """What runs and settles a claimed job in a worker, its server's handlers included."""

    def __init__(self, process, *paused, unknown_class="retry", foreign_jobs="refuse"):
        self.process = process
        self.server = Server()
        self.ran = []
        self.runner = make_runner(
            default_registry,
            wall_now=lambda: NOW,
            server=self.server,
            gate=Gate(
                paused=Paused(*paused),
                declared=default_registry,
                foreign_jobs=foreign_jobs,
                unknown_class=unknown_class,
                rng=random.Random(1),
                wall_now=lambda: NOW,
            ),
        )
        self.settler = Settler(process.keys)

    def take_and_run(self, *, times_settled=1) -> Settlement | None:
        claimer = self.process.claimer()
        chunk = claimer.claim(["default"], 1)
        text = chunk.take()
        settlement = self.runner.run(text, "default", self)
        for _ in range(times_settled if settlement else 0):
            self.settler.write(self.process.connect(), chunk, text, settlement)
        if settlement and settlement.notify:
            settlement.notify()
        self.lists = self.process.lists()
        return settlement

    performing = interrupted = False


@pytest.fixture(autouse=True)
def ran():
    """Arguments with which the declared job `Mail` ran."""
    with own_declarations():
        ran = []

        @job(name="Mail")
        def mail(*args):
            ran.append(args)

        yield ran


class TestPausedClass:
    def test_its_job_goes_to_the_schedule_as_it_is(self, process, redis, ran):
        redis.lpush("queue:default", JOB)

        settlement = Engine(process, "Mail").take_and_run(times_settled=2)

        [(member, score)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert member == JOB
        assert 50 <= score - NOW <= 70
        assert settlement.counted is False
        assert ran == []
        assert not redis.exists("queue:default", "retry", "dead", *process.lists())


class TestUnknownClass:
    def test_its_job_goes_to_the_other_queue_as_it_is(self, process, redis, ran):
        text = JOB.replace(b"Mail", b"Rails::Only")
        redis.lpush("queue:ruby", b"before")
        redis.lpush("queue:default", text)

        settlement = Engine(process, unknown_class="route:ruby").take_and_run(times_settled=3)

        assert redis.lrange("queue:ruby", 0, -1) == [text, b"before"]
        assert redis.smembers("queues") == {b"ruby"}
        assert settlement.counted is False
        assert not redis.exists("queue:default", "retry", "dead", *process.lists())

    def test_who_lost_the_lease_routes_nothing(self, process, redis):
        redis.lpush("queue:default", JOB)
        chunk = process.claimer().claim(["default"], 1)
        redis.srem("kb:inflight", process.incarnation)

        assert not repush(process.connect(), process.keys, chunk, JOB, queue="ruby", text=JOB)
        assert not redis.exists("queue:ruby")

    @pytest.mark.parametrize("key", ["queue:ruby", "queues"])
    def test_a_key_of_a_foreign_type_leaves_the_job_in_flight(self, process, redis, key):
        redis.set(key, "mine")
        redis.lpush("queue:default", JOB)
        chunk = process.claimer().claim(["default"], 1)

        for _ in range(2):
            with pytest.raises(RedisRefused, match=f"WRONGTYPE {key} is a string"):
                repush(process.connect(), process.keys, chunk, JOB, queue="ruby", text=JOB)

        assert redis.lrange(chunk.list_key, 0, -1) == [JOB]
        assert redis.get(key) == b"mine"
        assert redis.exists("queue:ruby", "queues") == 1

    def test_memory_that_is_full_does_not_stop_it(self, process, redis):
        redis.lpush("queue:default", JOB)
        chunk = process.claimer().claim(["default"], 1)
        redis.config_set("maxmemory", 1)
        try:
            assert repush(process.connect(), process.keys, chunk, JOB, queue="ruby", text=JOB)
        finally:
            redis.config_set("maxmemory", 0)
        assert redis.lrange("queue:ruby", 0, -1) == [JOB]

    def test_what_was_popped_goes_there_as_well(self, process, redis):
        chunk = Chunk(
            lease=NO_LEASE, queue="default", home="queue:default", list_key="", jobs=[JOB]
        )

        assert repush(process.connect(), process.keys, chunk, JOB, queue="ruby", text=JOB)
        assert redis.lrange("queue:ruby", 0, -1) == [JOB]
        assert redis.smembers("queues") == {b"ruby"}


class TestForeignFeature:
    def test_refused_it_is_dead_with_the_reason_whatever_its_options_say(self, process, redis, ran):
        redis.lpush("queue:default", BATCH_JOB)
        engine = Engine(process)
        deaths, errors = [], []
        engine.server.death_handler(lambda payload, error: deaths.append((payload["jid"], error)))
        engine.server.error_handler(lambda error, context: errors.append((error, context)))

        settlement = engine.take_and_run()

        [(member, score)] = redis.zrange("dead", 0, -1, withscores=True)
        kept = json.loads(member)
        assert score == NOW
        assert kept["error_class"] == "kiqbridge.errors.JobRefused"
        assert "belongs to a batch of Sidekiq Pro" in kept["error_message"]
        assert (kept["bid"], kept["args"][1], kept["queue"]) == (
            "b1",
            18446744073709551616,
            "default",
        )
        assert settlement.counted is True
        assert ran == []
        assert [jid for jid, _ in deaths] == ["j1"]
        assert errors[0][1]["job"]["jid"] == "j1"
        assert not redis.exists("retry", *process.lists())
