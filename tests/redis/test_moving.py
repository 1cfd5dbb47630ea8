"""A queue on its way to another shard: each job arrives once, in order, whatever is cut off in between."""

import json
import time
from collections import Counter
from itertools import count, pairwise

import pytest
from support.cut_pool import CutPool, Killed

from kiqbridge import Client
from kiqbridge.errors import PayloadError
from kiqbridge.flow import Unique
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.transfer import moving
from kiqbridge.transfer.leaving import Present, count_held, count_present, move_sets
from kiqbridge.transfer.moving import Mover, pending_batch, shard_id
from kiqbridge.wire.keys import Keys

KEYS = Keys()
QUEUE = "default"
SOON = 4_000_000_000


@pytest.fixture
def pools(shards):
    made = {name: RedisPool(each["url"]) for name, each in shards.setting.items()}
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture
def mover(pools):
    return Mover(QUEUE, KEYS, pools["rest"], pools["fast"], to="fast")


@pytest.fixture
def source(shards):
    return shards.raw["rest"]


@pytest.fixture
def target(shards):
    return shards.raw["fast"]


def job(number, **more):
    return json.dumps({"class": "A", "args": [number], "jid": f"jid{number:04}", "queue": QUEUE, **more}).encode()  # fmt: skip


def fill(source, texts):
    source.lpush(f"queue:{QUEUE}", *texts)


def waiting(raw):
    """The next to be performed first."""
    return raw.lrange(f"queue:{QUEUE}", 0, -1)[::-1]


def test_the_jobs_of_a_queue_keep_their_order_behind_those_that_wait_there(mover, source, target):
    texts = [job(number) for number in range(1203)]
    fill(source, texts)
    fill(target, [b"one that was pushed there"])
    steps = []

    moved = mover.move_queue(steps.append)

    assert waiting(target) == [b"one that was pushed there", *texts]
    assert (moved.queue, moved.stayed, source.llen(f"queue:{QUEUE}")) == (1203, 0, 0)
    assert target.sismember("queues", QUEUE)
    assert all(later - sooner <= moving.MOST_JOBS for sooner, later in pairwise([0, *steps]))
    assert not source.exists(KEYS.moving_batch(QUEUE))


def test_a_batch_has_a_megabyte_at_most_or_one_job(mover, source, target, monkeypatch):
    sizes = []
    bring = mover._bring
    monkeypatch.setattr(mover, "_bring", lambda batch, moved: (sizes.append(sum(map(len, batch.texts))), bring(batch, moved)))  # fmt: skip
    texts = [job(number, more="x" * 400_000) for number in range(5)]
    texts += [job(9, more="x" * 3_000_000), *(job(number) for number in range(10, 60))]
    fill(source, texts)

    mover.move_queue()

    assert waiting(target) == texts
    assert max(sizes) < 3_001_000
    assert sorted(sizes)[-2] <= moving.MOST_BYTES


@pytest.mark.parametrize("text", [b"", b"no json", b"null", b"\xff\xfe\x00", b'{"flow":', b'["tick"]', b'{"flow":3,"tick":null}'])  # fmt: skip
def test_what_is_no_job_goes_along_as_it_is(mover, source, target, text):
    fill(source, [text, job(1)])

    mover.move_queue()

    assert waiting(target) == [text, job(1)]


def test_jobs_of_batches_chains_and_occurrences_stay_in_their_order(mover, source, target):
    bound = [{"flow": {"bid": "b"}}, {"flow": {"next": []}}, {"tick": {"schedule": "s", "at": 1}}]
    texts = [job(number, **(bound[number % 3] if number % 2 else {})) for number in range(900)]
    fill(source, texts)

    first, second = mover.move_queue(), mover.move_queue()

    assert waiting(target) == texts[::2]
    assert waiting(source) == texts[1::2]
    assert (first.queue, first.stayed, second.queue, second.stayed) == (450, 450, 0, 450)


def test_a_text_that_is_too_long_to_be_looked_into_stays_if_it_may_belong_to_a_batch(
    mover, source, target
):
    long = job(1, flow={}, more="x" * 100_001)
    fill(source, [long, job(2)])

    mover.move_queue()

    assert (waiting(source), waiting(target)) == ([long], [job(2)])


def test_scheduled_jobs_and_retries_go_along_with_their_scores(
    mover, pools, source, target, monkeypatch
):
    monkeypatch.setattr(moving, "MOST_JOBS", 7)
    mine = {job(number): SOON + number / 8 for number in range(30)}
    others = {job(number, queue="low"): SOON for number in range(100, 110)}
    bound = {job(200, flow={"bid": "b"}): SOON}
    for name in ("schedule", "retry"):
        source.zadd(name, mine | others | bound | {b"no json": 1})

    moved = move_sets(mover, pools["rest"], KEYS, QUEUE)

    for name in ("schedule", "retry"):
        assert dict(target.zrange(name, 0, -1, withscores=True)) == mine
        assert dict(source.zrange(name, 0, -1, withscores=True)) == others | bound | {b"no json": 1}
    assert (moved.schedule, moved.retry, moved.stayed) == (30, 30, 2)


def test_a_job_that_was_promoted_meanwhile_is_not_moved_from_the_set(mover, source, target):
    source.zadd("schedule", {job(1): SOON})

    mover.move_members("schedule", [job(1), job(2)])

    assert target.zrange("schedule", 0, -1) == [job(1)]


def unique_jobs(shards):
    """On the source: one that waits, one that was replaced, its successor."""
    client = shards.client().on("rest")
    item = {"class": "A", "queue": QUEUE, "unique": Unique(on_conflict="replace")}
    jids = [client.push({**item, "args": [number]}) for number in (1, 2, 2)]
    client.close()
    return jids


def test_locks_go_along_with_their_jobs(shards, mover, source, target):
    jids = unique_jobs(shards)
    locks, replaced = source.hgetall("kb:locks"), source.zrange("kb:replaced", 0, -1)
    assert replaced == [jids[1].encode()]

    mover.move_queue()

    assert target.hgetall("kb:locks") == locks
    assert target.zrange("kb:replaced", 0, -1) == replaced
    assert set(target.zrange("kb:locks:look", 0, -1)) == locks.keys()
    assert not source.exists("kb:locks", "kb:locks:look", "kb:replaced")


def test_the_lock_of_another_job_stays_where_that_is(shards, mover, source, target):
    unique_jobs(shards)
    [(name, _), *_] = source.hgetall("kb:locks").items()
    owner = f"{int(time.time()) + 60} another"
    source.hset("kb:locks", name, owner)

    mover.move_queue()

    assert source.hgetall("kb:locks") == {name: owner.encode()}
    assert not target.hexists("kb:locks", name)


def test_a_lock_that_was_taken_on_the_target_is_left_to_its_owner(shards, mover, source, target):
    unique_jobs(shards)
    owner = f"{int(time.time()) + 60} newer".encode()
    target.hset("kb:locks", mapping=dict.fromkeys(source.hgetall("kb:locks"), owner))

    mover.move_queue()

    assert set(target.hvals("kb:locks")) == {owner}
    assert not source.exists("kb:locks")


def test_an_iterable_job_keeps_its_progress(mover, source, target):
    fill(source, [job(1), job(2)])
    source.hset("it-jid0001", mapping={"ex": 3, "c": "7"})
    target.hset("it-jid0001", "cancelled", 1)

    mover.move_queue()

    assert target.hgetall("it-jid0001") == {b"ex": b"3", b"c": b"7", b"cancelled": b"1"}
    assert 0 < target.ttl("it-jid0001") <= moving.ITERATION_S
    assert not target.exists("it-jid0002")


def everywhere(shards):
    """Each job, with how often it is anywhere."""
    found = Counter()
    for raw in (shards.raw["rest"], shards.raw["fast"]):
        found.update(raw.lrange(f"queue:{QUEUE}", 0, -1))
        found.update(raw.zrange("schedule", 0, -1))
    return found


def prepare(shards):
    source = shards.raw["rest"]
    texts = [job(number) for number in range(12)]
    fill(source, texts)
    later = [job(number) for number in range(20, 32)]
    source.zadd("schedule", dict.fromkeys(later, SOON))
    unique_jobs(shards)
    source.hset("it-jid0003", "c", 5)
    return Counter(source.lrange(f"queue:{QUEUE}", 0, -1) + later)


def move_everything(source_pool, target_pool):
    mover = Mover(QUEUE, KEYS, source_pool, target_pool, to="fast")
    mover.finish()
    move_sets(mover, source_pool, KEYS, QUEUE)
    mover.move_queue()


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("repeats", [1, 2])
def test_a_run_that_is_cut_off_at_any_call_is_completed_by_the_next(
    shards, pools, monkeypatch, is_sent, repeats
):
    """Each call of the protocol in turn is the last one of a run; `repeats` runs end there one after the other."""
    monkeypatch.setattr(moving, "MOST_JOBS", 5)
    urls = [shards.setting[name]["url"] for name in ("rest", "fast")]
    is_cut, at = True, -1
    while is_cut:
        at += 1
        for raw in shards.raw.values():
            raw.flushdb()
        expected = prepare(shards)
        locks = shards.raw["rest"].hgetall("kb:locks")
        order = waiting(shards.raw["rest"])
        for _ in range(repeats):
            calls = count()
            cut = [CutPool(url, calls, at, is_sent=is_sent) for url in urls]
            try:
                move_everything(*cut)
                is_cut = False
            except Killed:
                is_cut = True
            for pool in cut:
                pool.close()
            present = everywhere(shards)
            batch = pending_batch(pools["rest"], KEYS, QUEUE)
            assert expected - present <= Counter(batch.texts if batch else ()), f"lost at {at}"

        move_everything(pools["rest"], pools["fast"])

        assert everywhere(shards) == expected, f"cut at call {at}"
        assert waiting(shards.raw["fast"]) == order
        assert shards.raw["fast"].hgetall("kb:locks") == locks
        assert shards.raw["fast"].hget("it-jid0003", "c") == b"5"
        assert not shards.raw["rest"].exists("queue:default", "schedule", "kb:moving:default", "kb:locks")  # fmt: skip
    assert at > 15


def test_two_runs_do_each_step_for_each_other(shards, pools, source, target):
    texts = [job(number) for number in range(4)]
    fill(source, texts)
    first, second = (Mover(QUEUE, KEYS, pools["rest"], pools["fast"], to="fast") for _ in range(2))
    held = first._hold("queue:default", "queue", 2, ["queue"]).batch
    same = second._hold("queue:default", "queue", 2, ["queue"]).batch
    assert same == held

    second.move_queue()
    moved = moving.Moved()
    first._bring(held, moved)

    assert waiting(target) == texts
    assert moved.total == 0, "the other run has moved it"


def test_a_batch_that_arrives_late_changes_nothing(pools, source, target, mover):
    fill(source, [job(1)])
    held = mover._hold("queue:default", "queue", 1, ["queue"]).batch
    mover.move_queue()
    fill(source, [job(2)])
    mover.move_queue()

    assert mover._put(held, [], []).startswith(b"2 ")
    assert waiting(target) == [job(1), job(2)]


def test_a_source_that_has_lost_its_last_writes_loses_no_job(pools, source, target, mover):
    for number in range(3):
        fill(source, [job(number)])
        mover.move_queue()
    source.delete("kb:moving")  # as a replica that became the primary too early
    fill(source, [job(5)])
    later = Mover(QUEUE, KEYS, pools["rest"], pools["fast"], to="fast")
    later._last = 0  # it began before

    later.move_queue()

    assert waiting(target) == [job(0), job(1), job(2), job(5)]
    assert not source.exists("kb:moving:default")


def test_the_same_redis_under_two_names_is_refused(pools, source):
    fill(source, [job(1)])

    with pytest.raises(PayloadError, match="are the same Redis"):
        Mover(QUEUE, KEYS, pools["rest"], pools["rest"], to="fast")
    assert waiting(source) == [job(1)]


def test_a_batch_for_another_shard_is_not_brought_to_this_one(pools, source, mover):
    fill(source, [job(1)])
    mover._hold("queue:default", "queue", 1, ["queue"])
    other = Mover(QUEUE, KEYS, pools["rest"], pools["mail"], to="mail")

    fill(source, [job(2)])

    for act in (other.finish, other.move_queue):
        with pytest.raises(PayloadError, match="on its way to shard fast"):
            act()
    assert pending_batch(pools["rest"], KEYS, QUEUE).texts == [job(1)]


def test_a_shard_keeps_its_id(pools):
    ids = {name: shard_id(pool, KEYS) for name, pool in pools.items()}

    assert len(set(ids.values())) == 3
    assert ids == {name: shard_id(pool, KEYS) for name, pool in pools.items()}


def test_what_is_left_on_a_shard_is_counted(pools, source, mover):
    fill(source, [job(number) for number in range(3)])
    source.zadd("retry", {job(7): 1, job(8, queue="low"): 1})
    mover._hold("queue:default", "queue", 1, ["queue"])
    source.rpush("kb:suspects:default", "x")
    source.sadd("kb:inflight", "v2:h:1:n:0")
    source.hset("kb:claims:v2:h:1:n:0", mapping={"t": "4 queue:default", "u": "1 queue:low"})
    source.rpush("kb:inflight:v2:h:1:n:0:t:0", "a", "b")
    source.rpush("kb:inflight:v2:h:1:n:0:u:1", "c")

    assert count_present(pools["rest"], KEYS, QUEUE) == Present(queue=2, schedule=0, retry=1, on_the_way=1)  # fmt: skip
    assert count_held(pools["rest"], KEYS, QUEUE) == 3


def test_a_namespace_is_kept(shards, pools):
    keys = Keys("app")
    client = Client(pool=pools["rest"], namespace="app")
    client.push({"class": "A", "args": [], "queue": QUEUE})

    Mover(QUEUE, keys, pools["rest"], pools["fast"], to="fast").move_queue()

    assert shards.raw["fast"].llen("app:queue:default") == 1
    assert all(key.startswith(b"app:") for raw in shards.raw.values() for key in raw.scan_iter())
