"""A process ends while Redis is away and its lease in doubt: nothing of it may be acknowledged."""

import threading

import pytest
from support.engine import EngineProcess
from support.processors import processor_on
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.errors import RedisUnavailable

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
        leases = engine.connections[:2]
        made = processor_on(engine)
        made.gate.open()
        processor = made.processor
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
