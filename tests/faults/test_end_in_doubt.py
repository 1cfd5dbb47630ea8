"""A process ends while Redis is away and its lease in doubt: nothing of it may be acknowledged."""

import random
import threading

import pytest
from support.engine import EngineProcess
from support.waiting import wait_until

from kiqbridge.errors import RedisUnavailable
from kiqbridge.execution import JobRunner
from kiqbridge.fetch import Fetcher, Outage
from kiqbridge.job import job
from kiqbridge.look_ahead import Guardian
from kiqbridge.middleware import Chain
from kiqbridge.notifications import Notifications
from kiqbridge.processor import Processor, Tools
from kiqbridge.queues import queue_order
from kiqbridge.registry import default_registry
from kiqbridge.retry import RetryPolicy
from kiqbridge.settling import Settler
from kiqbridge.wakeup import IdleGate

BEGUN: list[str] = []
GO = threading.Event()


@job(name="WaitsForTheTest")
def waits(name: str) -> None:
    BEGUN.append(name)
    GO.wait(10)


def test_jobs_that_wait_while_a_lease_in_doubt_is_not_confirmed_stay_in_flight(redis_url, redis):
    names = ["first", "second", "third"]
    redis.lpush("queue:default", *(f'{{"class":"WaitsForTheTest","args":["{n}"]}}' for n in names))
    with EngineProcess(redis_url) as engine:
        outage, gate = Outage(), IdleGate()
        settler = Settler(engine.keys, lambda now: (now, 1))
        gate.open()
        tools = Tools(
            keeper=engine.keeper,
            runner=JobRunner(
                registry=default_registry,
                middleware=Chain(),
                policy=lambda: RetryPolicy(max_retries=25, profile="7"),
                rng=random.Random(1),
            ),
            guardian=Guardian(engine.connect(), engine.keys, settler, Notifications()),
            outage=outage,
            keys=engine.keys,
            settler=settler,
            look_ahead=3,
        )
        leases = engine.connections[:3]
        order = queue_order([("default", 0)], random.Random(1))
        processor = Processor("t1", Fetcher(engine.claimer(), order, gate, outage), tools)
        processor._size = 3
        processor.start()
        wait_until(lambda: BEGUN == ["first"], what="the first job")

        for connection in leases:
            connection.down = True
        engine.keeper.current.valid_until = 0.0
        GO.set()
        with pytest.raises(RedisUnavailable):
            engine.keeper.stop()
        processor.quiet()  # later than in a worker, where it would give its jobs back first
        wait_until(lambda: not processor.alive, 60, "the thread's end")

        held = [job for key in engine.lists() for job in redis.lrange(key, 0, -1)]
        assert BEGUN == ["first"]
        assert [name for name in names if any(name.encode() in job for job in held)] == names
        for connection in leases:
            connection.down = False
