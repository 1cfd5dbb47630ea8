"""Ends of jobs in the ledgers of their schedules: written with what becomes of the job, or not at all."""

import pytest

from kiqbridge import Client
from kiqbridge.clocks.ledger import read_ledger
from kiqbridge.errors import RedisUnavailable
from kiqbridge.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.settle.ending import ending
from kiqbridge.settle.settlement import Settlement, Verdict
from kiqbridge.settle.settling import Settler
from kiqbridge.store.due_jobs import Buried, bury
from kiqbridge.store.effects import Effect
from kiqbridge.wire.json_text import loads
from kiqbridge.wire.keys import Keys

MINUTE = 4_000_000_020
ENDS = "kb:ends:s"
NOW = 4_000_000_025.5


@pytest.fixture
def settler(process):
    return Settler(process.keys)


@pytest.fixture
def job(client, redis):
    """The text of a job of an occurrence, in its queue."""
    client.push_tick("s", MINUTE, [{"class": "Bill", "args": [7]}], by="test")
    return redis.lindex("queue:default", 0)


def end(job, outcome="done"):
    return ending(Keys(), loads(job), outcome, NOW, took_s=0.5)


def text_of(effects):
    return effects[-1].args[1]


def done(job):
    return Settlement(
        verdict=Verdict.DISCARD, score=0, text=b"", counted=True, failed=False, effects=end(job)
    )


def dead(job):
    effects = end(job, "dead")
    return Settlement(verdict=Verdict.DEAD, score=NOW, text=job, counted=True, effects=effects)


def claim(process):
    return process.claimer().claim(["default"], 1)


def in_flight(redis):
    return [job for key in redis.keys("kb:inflight:*") for job in redis.lrange(key, 0, -1)]


@pytest.mark.parametrize("settlement", [done, dead])
@pytest.mark.parametrize("is_popped", [False, True])
def test_the_end_is_written_with_what_becomes_of_the_job(
    redis, process, settler, job, *, settlement, is_popped
):
    chunk = claim(process)
    if is_popped:
        redis.delete(chunk.list_key)
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])

    assert settler.write(process.connect(), chunk, job, settlement(job))

    assert redis.zrange(ENDS, 0, -1, withscores=True) == [
        (text_of(settlement(job).effects), MINUTE)
    ]
    [entry] = read_ledger(process.connect(), process.keys, "s")
    assert [(each.jid, each.took_s) for each in entry.ends] == [(entry.jids[0], 0.5)]
    assert redis.zrange("dead", 0, -1) == ([job] if settlement is dead else [])
    assert in_flight(redis) == []


@pytest.mark.parametrize("settlement", [done, dead])
def test_a_reply_that_is_lost_writes_no_second_one(redis, process, settler, job, settlement):
    chunk = claim(process)
    connection = process.connect()
    connection.lose = {1}

    with pytest.raises(RedisUnavailable):
        settler.write(connection, chunk, job, settlement(job))
    settler.write(connection, chunk, job, settlement(job))

    assert redis.zcard(ENDS) == 1


def test_a_job_that_is_not_ours_any_more_has_no_end_here(redis, process, settler, job):
    chunk = claim(process)
    redis.delete(chunk.list_key)

    assert not settler.write(process.connect(), chunk, job, done(job))

    assert not redis.exists(ENDS)


def test_a_report_and_an_end_are_written_together(redis, process, settler, job):
    reported = Effect("add", ["kb:flow:ends"], [0, b"r"])
    chunk = claim(process)
    settlement = Settlement(
        verdict=Verdict.DISCARD, score=0, text=b"", counted=True, effects=[reported, *end(job)]
    )

    assert settler.write(process.connect(), chunk, job, settlement)

    assert redis.zrange("kb:flow:ends", 0, -1) == [b"r"]
    assert redis.zrange(ENDS, 0, -1) == [text_of(end(job))]


@pytest.mark.parametrize("is_popped", [False, True])
def test_what_is_in_no_ledger_any_more_has_no_end_that_would_stay_for_ever(
    redis, process, settler, job, is_popped
):
    chunk = claim(process)
    if is_popped:
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])
    redis.delete("kb:ticks:s")

    assert settler.write(process.connect(), chunk, job, done(job))

    assert not redis.exists(ENDS)


def test_an_occurrence_has_a_bounded_number_of_ends(redis, process, settler, job):
    chunk = claim(process)
    redis.zadd(ENDS, {f"end {number}": MINUTE for number in range(2000)})

    assert settler.write(process.connect(), chunk, job, done(job))

    assert redis.zcard(ENDS) == 2000
    assert in_flight(redis) == []


@pytest.mark.parametrize("key", [ENDS, "kb:ticks:s"])
@pytest.mark.parametrize("is_popped", [False, True])
@pytest.mark.parametrize("settlement", [done, dead])
def test_a_key_of_another_type_keeps_no_job_and_is_logged(
    redis, process, settler, job, *, caplog, key, is_popped, settlement
):
    chunk = claim(process)
    if is_popped:
        redis.delete(chunk.list_key)
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])
    redis.delete(key)
    redis.set(key, "foreign")

    assert settler.write(process.connect(), chunk, job, settlement(job))

    assert in_flight(redis) == []
    assert redis.zcard("dead") == (settlement is dead)
    assert redis.get(key) == b"foreign"
    assert "is not in its ledger" in caplog.text
    assert key in caplog.text


def test_a_due_job_that_is_dropped_or_buried_has_an_end(redis, process, redis_url):
    client = Client(redis_url)
    members, buried = [], []
    for number, schedule in enumerate(["s", "t", "u"]):
        at = MINUTE + 60 * number
        client.push_tick(schedule, at, [{"class": "A", "args": []}], by="test")
        text = redis.rpop("queue:default")
        redis.zadd("retry", {text: NOW})
        members.append(text)
        buried.append(Buried(text, b"" if number else b"kept", end(text, "dead")))
    buried.insert(1, Buried(b"plain", b""))
    redis.zadd("retry", {"plain": NOW, members[2]: NOW + 9})
    client.close()

    moved = bury(process.connect(), process.keys, "retry", buried, now=NOW)

    assert moved == 3
    assert redis.zrange("dead", 0, -1) == [b"kept"]
    assert redis.zrange("kb:ends:s", 0, -1) == [text_of(buried[0].effects)]
    assert redis.zrange("kb:ends:t", 0, -1) == [text_of(buried[2].effects)]
    assert not redis.exists("kb:ends:u")  # put off meanwhile


def test_a_ledger_of_another_type_holds_up_no_due_job(redis, process, job):
    redis.zadd("retry", {job: NOW})
    redis.set(ENDS, "foreign")

    moved = bury(
        process.connect(),
        process.keys,
        "retry",
        [Buried(job, b"kept", end(job))],
        now=NOW,
    )

    assert moved == 1
    assert redis.zrange("dead", 0, -1) == [b"kept"]
