"""Jobs that are gone are found: their locks are freed, and they end for their batches; no other job is touched."""

import json
import time

import pytest

from kiqbridge import Client
from kiqbridge.api import Queue, RetrySet, ScheduledSet
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.errors import RedisUnavailable
from kiqbridge.features.batches.steps import KEEP_DONE_S
from kiqbridge.features.gone_jobs.places import PART
from kiqbridge.features.gone_jobs.search import (
    AGAIN_S,
    LOOK_S,
    MISSES,
    MOST_MISSES,
    SEARCH_S,
    SLOW_S,
    GoneJobs,
)
from kiqbridge.flow import Batch, Unique
from kiqbridge.store.ledger import read_ledger
from kiqbridge.store.operating import LOOK
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd


class Clock:
    """Seconds that a test turns on."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock, client, redis):
    return Watching(GoneJobs(Keys(), monotonic=clock), clock, client.pool.connection(), redis)


class Watching:
    """A watch, and the clock by which it looks."""

    def __init__(self, watch, clock, connection, redis):
        self.watch, self.clock, self.connection, self.redis = watch, clock, connection, redis

    def search(self, connection=None, *, aged=True, times=1):
        """Searches from beginning to end; all locks are due for each, and `aged` batches."""
        for _ in range(times):
            self._search(connection or self.connection, aged)

    def _search(self, connection, aged):
        for name in self.redis.hkeys("kb:locks"):
            self.redis.zadd("kb:locks:look", {name: 1})
        for bid, until in self.redis.zrange("kb:flow:batches", 0, -1, withscores=True):
            self.redis.zadd("kb:flow:batches", {bid: until - LOOK_S * aged})
        self.clock.now += SEARCH_S
        self.watch.look(connection)
        while self.watch._search is not None:
            self.watch.look(self.connection)


def push(client, number, **item):
    return client.push({"class": "Seek", "args": [number], "unique": Unique(), **item})


@pytest.fixture
def outbox(client):
    return Outbox(client, client.pool.connection())


def fill(client, count=1):
    """A batch of jobs, which take their locks when they begin."""
    with Batch(client=client) as batch:
        for number in range(count):
            batch.push({"class": "Seek", "args": [number], "unique": Unique()})
    return batch


def owners(redis):
    return sorted(value.split()[1].decode() for value in redis.hvals("kb:locks"))


def take(redis, queue="default"):
    return redis.rpop(f"queue:{queue}")


def test_a_lock_is_freed_after_three_searches_in_vain(client, watch, redis):
    push(client, 1)
    kept = push(client, 2)
    take(redis)

    for _ in range(MISSES - 1):
        watch.search()
        assert len(owners(redis)) == 2
    watch.search()

    assert owners(redis) == [kept]
    assert redis.zcard("kb:locks:look") == 1
    assert watch.watch.ended == 1


def test_a_job_that_is_found_again_in_between_begins_anew(client, watch, redis):
    jid = push(client, 1)
    text = take(redis)
    watch.search(times=MISSES - 1)
    redis.lpush("queue:default", text)
    watch.search()
    take(redis)
    watch.search(times=MISSES - 1)

    assert owners(redis) == [jid]


@pytest.mark.parametrize(
    "place",
    [
        *("queue", "schedule", "retry", "suspects", "suspects of a cleared queue", "in flight"),
        *("working", "exporting", "outbox"),
    ],
)
def test_a_job_is_found_wherever_it_may_be(place, client, watch, redis):
    keys = Keys()
    batch = fill(client)
    text = take(redis)
    jid = json.loads(text)["jid"]
    redis.hset("kb:locks", "Seek:1", f"4000000000 {jid}")
    match place:
        case "queue":
            redis.lpush("queue:default", text)
        case "schedule" | "retry":
            redis.zadd(place, {text: 5})
        case "suspects":
            redis.lpush(keys.suspects("default"), text)
        case "suspects of a cleared queue":
            redis.lpush(keys.suspects("default"), text)
            redis.srem("queues", "default")
            redis.sadd("processes", "host:1:abc")
            redis.hset("host:1:abc", "info", '{"queues":["default"]}')
        case "outbox":
            redis.zadd("kb:flow:ends", {b'{"flow":{"bid":"x"},"jid":"%s"}' % jid.encode(): 0})
        case "in flight":
            redis.sadd(keys.inflight, "v2:host:1:aaa")
            redis.hset(keys.claims("v2:host:1:aaa"), "t1", "7 default")
            redis.lpush(keys.inflight_list("v2:host:1:aaa", "t1", 7), text)
        case "working":
            redis.sadd("processes", "ruby:1:abc")
            work = {"queue": "default", "payload": text.decode(), "run_at": 5}
            redis.hset("ruby:1:abc:work", "t1", json.dumps(work))
        case "exporting":
            redis.lpush(keys.exporting, text)

    watch.search(times=MISSES + 1)

    assert owners(redis) == [jid]
    assert batch.pending_jids() == [jid]
    assert watch.watch.ended == 0


def test_jobs_of_a_batch_that_are_gone_end_without_success(client, watch, redis, outbox, caplog):
    batch = fill(client, 2)
    gone = json.loads(take(redis))["jid"]
    for searches in range(MISSES):
        assert watch.watch.ended == 0, searches
        watch.search()
    outbox.look()

    assert batch.failed_jids() == [gone]
    assert batch.status().death_at
    assert not batch.status().complete
    assert f"batch {batch.bid}: 1 of its jobs are gone" in caplog.text

    take(redis)
    watch.search(times=MISSES + 1)
    assert watch.watch.ended == 1  # the other one was found in this round
    watch.clock.now += AGAIN_S
    watch.search(times=MISSES)
    outbox.look()

    assert batch.status().complete
    assert not batch.status().success


def test_jobs_of_a_schedule_that_are_gone_end_in_its_ledger(client, watch, redis):
    at = int(time.time() - LOOK_S) - 60
    jobs = [{"class": "Seek", "args": [number]} for number in range(3)]
    client.push_tick("nightly", at, jobs, by="test")
    client.push_tick("young", int(time.time()), jobs[:1], by="test")
    gone, done = (json.loads(take(redis))["jid"] for _ in range(2))
    ended = JobEnd(at=at, jid=done, outcome="done", ended_at=time.time())
    redis.zadd("kb:ends:nightly", {ended.to_text(): at})
    redis.zadd("kb:ledgers", {"foreign": 1})
    redis.set("kb:ticks:foreign", "of another type")
    redis.lpop("queue:default")

    watch.search(times=MISSES + 1)

    [entry] = read_ledger(watch.connection, Keys(), "nightly")
    assert {end.jid: end.outcome for end in entry.ends} == {gone: "gone", done: "done"}
    assert not redis.exists("kb:ends:young")
    assert watch.watch.ended == 1


def test_a_long_search_proves_less(client, watch, redis, monkeypatch):
    """A job may have gone all the way round while it was sought."""
    monkeypatch.setattr("kiqbridge.features.gone_jobs.search.PARTS_PER_TURN", 1)
    fill(client)
    take(redis)
    looked = watch.watch.look

    def look(connection):
        watch.clock.now += SLOW_S * MOST_MISSES
        looked(connection)

    monkeypatch.setattr(watch.watch, "look", look)
    for _ in range(MOST_MISSES):  # the first one has come no farther than to the batch
        watch.search()
    assert watch.watch.ended == 0
    watch.search()

    assert watch.watch.ended == 1


def test_one_that_has_ended_meanwhile_is_left_alone(client, watch, redis):
    batch = fill(client)
    jid = json.loads(take(redis))["jid"]
    watch.search(times=MISSES - 1)
    redis.hset(Keys().batch_members(batch.bid), jid, "d")
    watch.search()

    assert redis.zcard("kb:flow:ends") == 0


def test_young_batches_and_those_that_succeeded_are_not_looked_at(client, watch, redis):
    young, done = fill(client), fill(client)
    for _ in range(2):
        take(redis)
    redis.zadd("kb:flow:batches", {done.bid: time.time() + KEEP_DONE_S - 60})
    watch.search(aged=False, times=MISSES)
    assert young.status().pending

    assert watch.watch.ended == 0


def test_what_is_dead_holds_no_lock(client, watch, redis):
    push(client, 1)
    redis.zadd("dead", {take(redis): 5})

    watch.search(times=MISSES)

    assert owners(redis) == []


def test_a_long_queue_is_read_in_parts_to_its_end(client, watch, redis):
    jids = [push(client, number) for number in range(3)]
    redis.lpush("queue:default", *(b"filler %d" % n for n in range(2 * PART + 7)))

    watch.search(times=MISSES)

    assert owners(redis) == sorted(jids)


def test_a_lock_of_another_job_in_the_meantime_stays(client, watch, redis):
    push(client, 1)
    take(redis)
    watch.search(times=MISSES - 1)
    redis.delete("kb:locks")
    later = push(client, 1)
    take(redis)
    watch.search()

    assert owners(redis) == [later]


def test_without_locks_and_batches_a_look_is_one_command_a_minute(clock):
    watch = GoneJobs(Keys(), monotonic=clock)

    class Counting:
        scripts = calls = 0

        def script(self, *_):
            self.scripts += 1
            return []

        def call(self, *_):
            self.calls += 1
            return []

    counting = Counting()
    for _ in range(120):
        watch.look(counting)
        clock.now += 1

    assert (counting.scripts, counting.calls) == (2, 2)


def test_locks_whose_time_is_over_are_forgotten(client, watch, redis):
    push(client, 1)
    [name] = redis.hkeys("kb:locks")
    redis.hset("kb:locks", name, "1700000000 gone")
    redis.zadd("kb:replaced", {"old": 1700000000, "young": 4_000_000_000})

    watch.search()

    assert not redis.exists("kb:locks", "kb:locks:look")
    assert redis.zrange("kb:replaced", 0, -1) == [b"young"]


def test_an_outage_begins_the_search_anew(client, watch, redis):
    kept = push(client, 1)
    away = Client("redis://127.0.0.1:1")

    with pytest.raises(RedisUnavailable):
        watch.search(away.pool.connection())
    watch.search()

    assert owners(redis) == [kept]


@pytest.mark.parametrize("place", ["queue", "schedule", "retry"])
def test_jobs_that_are_cleared_end_for_whoever_waits_for_that(redis, operator, place):
    client = operator.client
    sets = {"schedule": ScheduledSet, "retry": RetrySet}
    with Batch(client=client) as batch:
        for number in range(LOOK + 50):
            batch.push({"class": "Part", "args": [number]})
    client.push({"class": "One", "args": [], "unique": Unique()})
    at = int(time.time())
    client.push_tick("nightly", at, [{"class": "Tick", "args": []}], by="test")
    for number in range(LOOK):
        client.push({"class": "Plain", "args": [number]})
    texts = redis.lrange("queue:default", 0, -1)
    if place != "queue":
        redis.rename("queue:default", "taken")
        redis.zadd(place, {each: number for number, each in enumerate(texts)})
    target = Queue("default", operator) if place == "queue" else sets[place](operator)

    assert target.clear() == len(texts)
    outbox = Outbox(client, client.pool.connection())
    while outbox.look():
        pass

    assert redis.keys("kb:cleared:*") == []
    assert batch.status().complete
    assert len(batch.failed_jids()) == LOOK + 50
    assert redis.hlen("kb:locks") == 0
    [end] = redis.zrangebyscore("kb:ends:nightly", at, at)
    assert json.loads(end)["outcome"] == "discarded"
