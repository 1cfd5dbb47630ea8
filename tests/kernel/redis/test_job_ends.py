"""The end of a job that somebody watches: written with what becomes of the job."""

import pytest
from support.engine import in_flight

from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.due_jobs import Buried, bury
from kiqbridge.store.effects import Effect

NOW = 1_700_000_000.5
JOB = b'{"class":"Bill","args":[7],"jid":"j1","flow":{"bid":"f"}}'
DEAD = b'{"class":"Bill","args":[7],"jid":"j1","flow":{"bid":"f"},"retry_count":0}'
END = b'{"flow":{"bid":"f"},"jid":"j1"}'
ENDS = "kb:flow:ends"


def added(text):
    return Effect("add", [ENDS], [0, text])


EFFECTS = [added(END)]


@pytest.fixture
def woken():
    return []


@pytest.fixture
def settler(process, woken):
    return Settler(process.keys, on_end=lambda: woken.append(True))


def claim(process, redis, *jobs):
    redis.lpush("queue:default", *jobs)
    return process.claimer().claim(["default"], len(jobs))


def dead():
    return Settlement(target=Target.DEAD, score=NOW, text=DEAD, counted=True, effects=EFFECTS)


def done():
    return Settlement(
        target=Target.DISCARD, score=0, text=b"", counted=True, failed=False, effects=EFFECTS
    )


@pytest.mark.parametrize("settlement", [dead, done])
def test_it_is_written_in_the_place_of_its_job(redis, process, settler, woken, settlement):
    chunk = claim(process, redis, JOB)

    assert settler.write(process.connect(), chunk, JOB, settlement())

    assert redis.zrange(ENDS, 0, -1, withscores=True) == [(END, 0)]
    assert redis.zrange("dead", 0, -1) == [DEAD] * (settlement is dead)
    assert in_flight(redis) == []
    assert woken


@pytest.mark.parametrize("settlement", [dead, done])
def test_a_reply_that_is_lost_writes_no_second_one(redis, process, settler, settlement):
    chunk = claim(process, redis, JOB)
    connection = process.connect()
    connection.lose = {1}

    with pytest.raises(RedisUnavailable):
        settler.write(connection, chunk, JOB, settlement())
    settler.write(connection, chunk, JOB, settlement())

    assert redis.zcard(ENDS) == 1
    assert redis.zcard("dead") <= 1


@pytest.mark.parametrize("settlement", [dead, done])
def test_of_a_job_that_is_not_ours_any_more_nothing_is_added(
    redis, process, settler, woken, settlement
):
    chunk = claim(process, redis, JOB)
    redis.delete(chunk.list_key)

    assert not settler.write(process.connect(), chunk, JOB, settlement())

    assert not redis.exists(ENDS, "dead")
    assert not woken


def test_a_foreign_type_stops_it_before_anything_is_written(redis, process, settler):
    redis.set(ENDS, "text")
    chunk = claim(process, redis, JOB)

    with pytest.raises(RedisRefused):
        settler.write(process.connect(), chunk, JOB, dead())

    assert not redis.exists("dead")
    assert in_flight(redis) == [JOB]


@pytest.mark.parametrize("settlement", [dead, done])
def test_that_of_a_popped_job_too(redis, process, settler, settlement):
    chunk = Chunk(lease=NO_LEASE, queue="default", home="queue:default", list_key="", jobs=[JOB])

    assert settler.write(process.connect(), chunk, JOB, settlement())

    assert redis.zrange(ENDS, 0, -1) == [END]


def test_a_due_job_that_is_dropped_or_buried_is_added(redis, process):
    redis.zadd("retry", {"dropped": NOW, "buried": NOW, "later": NOW + 1})
    members = [
        Buried(b"dropped", b"", [added(b"r1")]),
        Buried(b"buried", b"kept", [added(b"r2")]),
        Buried(b"later", b"", [added(b"r3")]),
        Buried(b"gone", b"", [added(b"r4")]),
    ]

    moved = bury(process.connect(), process.keys, "retry", members, now=NOW)

    assert moved == 2
    assert redis.zrange("retry", 0, -1) == [b"later"]
    assert redis.zrange("dead", 0, -1) == [b"kept"]
    assert sorted(redis.zrange(ENDS, 0, -1)) == [b"r1", b"r2"]
