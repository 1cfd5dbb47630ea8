"""Where clients push while a queue is moved, and that nothing that is guarded is enqueued twice because of it."""

import time
from itertools import count

import pytest
from support.cut_pool import CutPool, Killed

from kiqbridge import Client
from kiqbridge.config.shards import shards as parse_shards
from kiqbridge.errors import NotUnique, PayloadError, RedisUnavailable
from kiqbridge.flow import Unique
from kiqbridge.store import shards as store_shards
from kiqbridge.store.shards import ShardPools, open_shards
from kiqbridge.transfer.moving import Mover
from kiqbridge.transfer.rerouting import moved_at, reroute, where_it_lies
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.routes import LOOK_BACK_S, Route, former_of

KEYS = Keys()
QUEUE = "default"
ITEM = {"class": "Work", "args": [1], "queue": QUEUE}
CRITICAL = {"class": "Work", "args": [2], "queue": "critical"}
MINUTE = 4_000_000_000


@pytest.fixture
def pools(shards):
    made = open_shards(parse_shards(shards.setting, "test"), {})
    yield made
    made.close()


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


@pytest.fixture
def stale(shards):
    """A client that has read where queues lie before they are moved, and trusts that."""
    client = shards.client()
    assert client.shard_of(QUEUE) == "rest"
    assert client.shard_of("critical") == "fast"
    yield client
    client.close()


def count_jobs(shards, queue=QUEUE):
    found = {name: raw.llen(f"queue:{queue}") for name, raw in shards.raw.items()}
    return {name: number for name, number in found.items() if number}


def move_jobs(pools, source, to):
    Mover(QUEUE, KEYS, pools.pool(source), pools.pool(to), to=to).move_queue()


def test_clients_push_to_the_new_shard(pools, client, shards):
    assert reroute(QUEUE, KEYS, pools, "mail") == "rest"
    client.push(ITEM)

    assert count_jobs(shards) == {"mail": 1}
    assert where_it_lies(QUEUE, KEYS, pools)[0] == pools.shard_of(QUEUE, KEYS) == "mail"
    assert time.time() - 5 < moved_at(QUEUE, KEYS, pools, "mail") <= time.time()
    assert moved_at(QUEUE, KEYS, pools, "rest") == 0


def test_a_queue_that_lies_there_already_is_not_moved(pools, shards):
    assert reroute(QUEUE, KEYS, pools, "rest") is None
    assert reroute(QUEUE, KEYS, pools, "fast") == "rest"
    route = shards.raw["rest"].hgetall("kb:routes")

    assert reroute(QUEUE, KEYS, pools, "fast") is None
    assert shards.raw["rest"].hgetall("kb:routes") == route


def test_an_unknown_shard_is_refused(pools):
    with pytest.raises(PayloadError, match="'nowhere' is not one of the shards"):
        reroute(QUEUE, KEYS, pools, "nowhere")


def test_moved_on_and_back_it_lies_where_it_was_moved_to_last(pools, shards):
    for to in ("fast", "mail", "fast", "rest", "mail", "rest"):
        before = where_it_lies(QUEUE, KEYS, pools)[0]
        assert reroute(QUEUE, KEYS, pools, to) == before
        assert where_it_lies(QUEUE, KEYS, pools)[0] == pools.shard_of(QUEUE, KEYS) == to
        assert shards.client().shard_of(QUEUE) == to

    assert not shards.raw["rest"].hexists("kb:routes", QUEUE), "its globs point to it"
    assert former_of(shards.raw["rest"].hget("kb:routes:from", QUEUE)).keys() == {"fast", "mail"}


def test_what_is_remembered_ends(pools, shards):
    shards.raw["rest"].hset("kb:routes:from", QUEUE, f"fast {int(time.time()) - 1}")

    reroute(QUEUE, KEYS, pools, "mail")

    [(shard, until)] = former_of(shards.raw["mail"].hget("kb:routes:from", QUEUE)).items()
    assert shard == "rest"
    assert until == pytest.approx(time.time() + LOOK_BACK_S, abs=10)


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("way", [["fast"], ["fast", "rest"], ["fast", "mail", "rest"]], ids="-".join)  # fmt: skip
def test_a_run_that_is_cut_off_at_any_call_leaves_one_place(shards, pools, way, is_sent):
    """Whatever was written, all clients agree on a place, old or new, and the next run completes it."""
    *before, last = way
    is_cut, at = True, -1
    while is_cut:
        at += 1
        for raw in shards.raw.values():
            raw.flushdb()
        for to in before:
            reroute(QUEUE, KEYS, pools, to)
        old, calls = where_it_lies(QUEUE, KEYS, pools)[0], count()
        cut = ShardPools(
            {name: CutPool(each["url"], calls, at, is_sent=is_sent) for name, each in shards.setting.items()},
            pools.routes,
        )  # fmt: skip
        try:
            reroute(QUEUE, KEYS, cut, last)
            is_cut = False
        except Killed:
            pass
        cut.close()
        place = where_it_lies(QUEUE, KEYS, pools)[0]
        assert place in (old, last)
        assert shards.client().shard_of(QUEUE) == place
        if place == last:
            assert old in former_of(shards.raw[last].hget("kb:routes:from", QUEUE))

        reroute(QUEUE, KEYS, pools, last)

        assert where_it_lies(QUEUE, KEYS, pools)[0] == last
    assert at > 5


def test_a_guarded_push_of_a_client_that_knows_nothing_yet_goes_to_the_new_shard(
    pools, stale, shards
):
    reroute(QUEUE, KEYS, pools, "mail")

    [outcome] = stale.push_once([ITEM], ["a"])

    assert not outcome.duplicate
    assert count_jobs(shards) == {"mail": 1}
    assert shards.raw["rest"].hlen("kb:guards") == 0


@pytest.mark.parametrize("way", [["mail"], ["mail", "rest"], ["fast", "mail"], ["fast", "rest", "mail"]], ids="-".join)  # fmt: skip
def test_a_guarded_push_and_a_tick_are_known_wherever_the_queue_was(
    pools, stale, client, shards, way
):
    first = stale.push_once([ITEM], ["a"])[0].jid
    tick = stale.push_tick("stack/Nightly", MINUTE, [ITEM], by="test")
    jids = [job.jid for job in tick.jobs]
    for to in way:
        reroute(QUEUE, KEYS, pools, to)

    for one in (stale, client, shards.client()):
        [again] = one.push_once([ITEM], ["a"])
        repeated = one.push_tick("stack/Nightly", MINUTE, [ITEM], by="test")
        assert (again.duplicate, again.jid) == (True, first)
        assert (repeated.kind, [job.jid for job in repeated.jobs]) == ("duplicate", jids)
        assert one.find_enqueued([ITEM], ["a"]) == [first]
    assert count_jobs(shards) == {"rest": 2}


def test_guards_of_each_place_on_the_way_are_asked(pools, client, shards):
    jids = {}
    for to in ("rest", "fast", "mail", "rest"):
        reroute(QUEUE, KEYS, pools, to)
        client.writer.look_again()
        jids[to] = jids.get(to) or client.push_once([ITEM], [f"at {to}"])[0].jid

    for to, jid in jids.items():
        assert client.push_once([ITEM], [f"at {to}"])[0].jid == jid
    assert count_jobs(shards) == dict.fromkeys(["rest", "fast", "mail"], 1)


def test_only_what_is_not_known_is_pushed_and_answers_keep_their_order(pools, client, shards):
    items = [{**ITEM, "args": [number]} for number in range(5)]
    first = client.push_once([items[1], items[3]], ["b", "d"])
    reroute(QUEUE, KEYS, pools, "mail")

    outcomes = client.push_once(items, ["a", "b", None, "d", "e"])

    assert [each.index for each in outcomes] == [0, 1, 2, 3, 4]
    assert [each.duplicate for each in outcomes] == [False, True, False, True, False]
    assert [outcomes[1].jid, outcomes[3].jid] == [each.jid for each in first]
    assert count_jobs(shards) == {"rest": 2, "mail": 3}


def test_a_client_that_knows_an_earlier_place_only_is_corrected(pools, shards):
    """Moved there and back, it lies where a client has seen it long before; what happened in between counts."""
    old = shards.client()
    assert old.shard_of(QUEUE) == "rest"
    reroute(QUEUE, KEYS, pools, "mail")
    between = shards.client()
    jid = between.push_once([ITEM], ["a"])[0].jid
    reroute(QUEUE, KEYS, pools, "rest")

    assert old.push_once([ITEM], ["a"])[0].jid == jid
    assert between.push_once([{**ITEM, "args": [2]}], ["b"])[0].duplicate is False
    assert old.push_once([ITEM], ["b"])[0].duplicate is True
    assert count_jobs(shards) == {"mail": 1, "rest": 1}


def test_what_nobody_must_remember_is_not_asked_for(pools, client, shards):
    client.push_once([ITEM], ["a"])
    reroute(QUEUE, KEYS, pools, "mail")
    shards.raw["mail"].hset("kb:routes:from", QUEUE, f"rest {int(time.time()) - 1}")

    assert not client.push_once([ITEM], ["a"])[0].duplicate


def test_while_the_former_shard_is_away_a_guarded_push_is_refused_and_a_plain_one_is_not(
    pools, client, shards, monkeypatch
):
    reroute(QUEUE, KEYS, pools, "mail")
    client.push(ITEM)

    def away(*_args, **_options):
        raise RedisUnavailable("away")

    monkeypatch.setattr(client.on("rest").pool, "run", away)
    client.push(ITEM)
    with pytest.raises(RedisUnavailable):
        client.push_once([ITEM], ["a"])
    assert count_jobs(shards) == {"mail": 2}


def test_a_tick_that_was_cut_in_two_is_completed_after_its_queues_have_met(pools, client, shards):
    items = [CRITICAL, ITEM]
    shards.raw["rest"].set("queues", "of another type")
    with pytest.raises(Exception, match="WRONGTYPE"):
        client.push_tick("stack/Nightly", MINUTE, items, by="test")
    assert (count_jobs(shards, "critical"), count_jobs(shards)) == ({"fast": 1}, {})
    shards.raw["rest"].delete("queues")
    reroute(QUEUE, KEYS, pools, "fast")

    outcomes = [client.push_tick("stack/Nightly", MINUTE, items, by="test") for _ in range(3)]

    assert (count_jobs(shards, "critical"), count_jobs(shards)) == ({"fast": 1}, {"fast": 1})
    assert [each.kind for each in outcomes] == ["enqueued", "duplicate", "duplicate"]
    assert [job.duplicate for job in outcomes[0].jobs] == [True, False]
    assert {tuple(job.jid for job in each.jobs) for each in outcomes} == {
        tuple(job.jid for job in outcomes[0].jobs)
    }


def test_a_tick_of_two_queues_is_known_when_one_of_them_has_left(pools, client, shards):
    items = [{**ITEM, "queue": "low"}, ITEM, {**ITEM, "args": [3]}]
    first = client.push_tick("stack/Nightly", MINUTE, items, by="test")
    reroute(QUEUE, KEYS, pools, "mail")

    again = shards.client().push_tick("stack/Nightly", MINUTE, items, by="test")

    assert again.kind == "duplicate"
    assert [job.jid for job in again.jobs] == [job.jid for job in first.jobs]
    assert (count_jobs(shards), count_jobs(shards, "low")) == ({"rest": 2}, {"rest": 1})


def unique(number=1, **options):
    return {**ITEM, "args": [number], "unique": Unique(**options)}


def test_a_unique_job_is_one_of_its_kind_on_both_shards(pools, stale, client, shards):
    jid = client.push(unique())
    reroute(QUEUE, KEYS, pools, "mail")

    assert stale.push(unique()) is None
    with pytest.raises(NotUnique, match=jid):
        stale.push(unique(on_conflict="raise"))
    assert stale.push_bulk({**unique(), "args": [[1], [2], [1]]})[0::2] == [None, None]
    assert count_jobs(shards) == {"rest": 1, "mail": 1}
    move_jobs(pools, "rest", "mail")
    assert client.push(unique()) is None
    shards.raw["mail"].delete("kb:locks")
    assert client.push(unique()), "its lock has gone along, and nothing of it is left"


def test_a_unique_job_replaces_the_one_on_the_former_shard(pools, client, shards):
    before = client.push(unique())
    reroute(QUEUE, KEYS, pools, "mail")
    client.writer.look_again()

    later = client.push(unique(on_conflict="replace"))

    assert shards.raw["rest"].zrange("kb:replaced", 0, -1) == [before.encode()]
    assert not shards.raw["rest"].exists("kb:locks", "kb:locks:look")
    [lock] = shards.raw["mail"].hvals("kb:locks")
    assert lock.endswith(later.encode())
    move_jobs(pools, "rest", "mail")
    assert shards.raw["mail"].zrange("kb:replaced", 0, -1) == [before.encode()]
    assert not shards.raw["rest"].exists("kb:replaced")


def test_a_client_that_cannot_find_out_where_a_queue_lies_is_refused(
    pools, client, shards, monkeypatch
):
    client.shard_of(QUEUE)
    reroute(QUEUE, KEYS, pools, "fast")
    monkeypatch.setattr(ShardPools, "read_moves", lambda _self, keys: None)
    with pytest.raises(RedisUnavailable, match="is being moved to another shard"):
        client.push_once([ITEM], ["a"])
    assert count_jobs(shards) == {}


def test_one_server_is_asked_nothing(redis, redis_url):
    client = Client(redis_url)
    redis.hset("kb:routes", QUEUE, "nowhere 5")

    client.push_once([ITEM], ["a"])
    before = redis.info("commandstats")
    client.push_once([ITEM], ["a"])
    after = redis.info("commandstats")

    asked = {name for name in after if after[name] != before.get(name)}
    assert "cmdstat_hgetall" not in asked
    assert after["cmdstat_hget"]["calls"] - before["cmdstat_hget"]["calls"] == 1, "the guard"
    client.close()


def test_routes_are_read_once_in_a_while(pools, client, shards, monkeypatch):
    monkeypatch.setattr(store_shards, "REREAD_S", 1e9)
    client.push_once([ITEM], ["a"])
    before = shards.raw["rest"].info("commandstats")["cmdstat_hgetall"]["calls"]

    for number in range(20):
        client.push_once([ITEM], [f"b{number}"])

    assert shards.raw["rest"].info("commandstats")["cmdstat_hgetall"]["calls"] == before


def test_routes_as_they_are_kept():
    assert Route.from_text(b"mail 7") == Route("mail", 7)
    assert Route.from_text(b"mail") == Route("mail", 1)
    assert Route.from_text(Route("a.b-c_d", 12).to_text().encode()) == Route("a.b-c_d", 12)
    assert former_of(b"a 1 b 2") == {"a": 1, "b": 2}
    assert former_of(b"") == former_of(b"a") == former_of(b"a x") == {}


def test_a_pool_of_another_namespace_is_not_concerned(shards, pools):
    reroute(QUEUE, Keys("app"), pools, "mail")

    assert shards.client().shard_of(QUEUE) == "rest"
    assert shards.client(namespace="app").shard_of(QUEUE) == "mail"
