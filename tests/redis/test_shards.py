"""A client of several servers: each job goes to that of its queue."""

import json

import pytest
from support.servers import embedded_server
from support.shards import sharded

from kiqbridge import Client, job
from kiqbridge.client.default_client import own_default_client, pushing_through
from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.flow import Unique
from kiqbridge.store import shards as store_shards

WHERE = {"mail-bulk": "mail", "critical": "fast", "default": "rest"}
ITEMS = [{"class": "Work", "args": [queue], "queue": queue} for queue in WHERE]
MINUTE = 4_000_000_000


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


def waiting(shards):
    """Queue → shards on which it has jobs, and how many."""
    return {
        queue: {name: count for name, raw in shards.raw.items() if (count := raw.llen(f"queue:{queue}"))}
        for queue in WHERE
    }  # fmt: skip


def once_each():
    return {queue: {shard: 1} for queue, shard in WHERE.items()}


def test_each_push_goes_to_the_shard_of_its_queue(client, shards):
    for item in ITEMS:
        client.push(item)

    assert waiting(shards) == once_each()
    assert shards.raw["mail"].smembers("queues") == {b"mail-bulk"}
    assert client.shards == ("mail", "fast", "rest")
    assert [client.shard_of(queue) for queue in WHERE] == list(WHERE.values())


def test_a_job_for_later_waits_on_the_shard_of_its_queue(client, shards):
    client.push({**ITEMS[1], "at": MINUTE})

    assert {name: raw.zcard("schedule") for name, raw in shards.raw.items()} == {
        "mail": 0,
        "fast": 1,
        "rest": 0,
    }


def test_middleware_may_change_the_queue_and_so_the_shard(client, shards):
    def to_critical(job_class, job, queue, call_next):
        job["queue"] = "critical"
        return call_next()

    client.middleware.add(to_critical)
    client.push(ITEMS[0])

    assert waiting(shards) == {"mail-bulk": {}, "critical": {"fast": 1}, "default": {}}


def test_a_queue_of_no_shard_is_refused_before_anything_is_written(shards):
    del shards.setting["rest"]
    client = shards.client()

    with pytest.raises(PayloadError, match="belongs to no shard"):
        client.push_bulk({**ITEMS[2], "args": [[1]]})
    with pytest.raises(PayloadError, match="belongs to no shard"):
        client.push_once(ITEMS, [None, None, None])
    assert waiting(shards) == {queue: {} for queue in WHERE}


def test_many_jobs_of_one_call_go_to_their_shard(client, shards):
    client.push_bulk({**ITEMS[0], "args": [[number] for number in range(1500)]})

    assert waiting(shards)["mail-bulk"] == {"mail": 1500}


def test_guarded_jobs_are_pushed_once_on_each_shard(client, shards):
    first = client.push_once(ITEMS, ["a", "b", "c"])
    again = client.push_once(ITEMS, ["a", "b", "c"])

    assert waiting(shards) == once_each()
    assert [each.index for each in first] == [each.index for each in again] == [0, 1, 2]
    assert [each.jid for each in first] == [each.jid for each in again]
    assert [each.duplicate for each in again] == [True, True, True]
    assert client.find_enqueued(ITEMS, ["a", "b", "c"]) == [each.jid for each in first]
    assert client.find_enqueued(ITEMS, ["a", "x", "c"])[1] is None


def test_what_a_failure_cut_in_two_is_completed_by_a_repeated_call(client, shards):
    shards.raw["fast"].set("queues", "of another type")
    with pytest.raises(Exception, match="WRONGTYPE"):
        client.push_once(ITEMS, ["a", "b", "c"])
    with pytest.raises(Exception, match="WRONGTYPE"):
        client.push_tick("stack/Nightly", MINUTE, ITEMS, by="test")
    assert waiting(shards) == {"mail-bulk": {"mail": 2}, "critical": {}, "default": {}}

    shards.raw["fast"].delete("queues")
    outcomes = client.push_once(ITEMS, ["a", "b", "c"])
    tick = client.push_tick("stack/Nightly", MINUTE, ITEMS, by="test")

    assert waiting(shards) == {queue: {shard: 2} for queue, shard in WHERE.items()}
    assert [each.duplicate for each in outcomes] == [True, False, False]
    assert (tick.kind, [each.duplicate for each in tick.jobs]) == ("enqueued", [True, False, False])


def test_a_tick_has_an_entry_on_each_shard_of_its_jobs(client, shards):
    first = client.push_tick("stack/Nightly", MINUTE, ITEMS[:2], by="test")
    again = client.push_tick("stack/Nightly", MINUTE, ITEMS[:2], by="test")

    ledgers = {name: raw.zcard("kb:ticks:stack/Nightly") for name, raw in shards.raw.items()}
    assert ledgers == {"mail": 1, "fast": 1, "rest": 0}
    assert (first.kind, again.kind) == ("enqueued", "duplicate")
    assert [each.jid for each in first.jobs] == [each.jid for each in again.jobs]
    assert client.find_tick("stack/Nightly", MINUTE) == [each.jid for each in first.jobs]
    assert client.find_tick("stack/Nightly", MINUTE + 60) is None


def test_a_tick_without_jobs_is_noted_on_the_first_shard(client, shards):
    client.middleware.add(lambda *_: None)

    assert client.push_tick("stack/Nightly", MINUTE, ITEMS, by="test").kind == "enqueued"
    assert shards.raw["mail"].zcard("kb:ticks:stack/Nightly") == 1


def test_a_unique_job_has_its_lock_where_its_queue_is(client, shards):
    with own_default_client(), pushing_through(client):

        @job(queue="critical", unique=Unique(ttl_s=60))
        def charge(number: int) -> None: ...

        jids = [charge.perform_async(1), charge.perform_async(1), charge.perform_async(2)]

    assert [bool(jid) for jid in jids] == [True, False, True]
    assert shards.raw["fast"].hlen("kb:locks") == 2
    assert waiting(shards)["critical"] == {"fast": 2}


def test_a_pause_holds_on_each_shard(client, shards):
    client.pause_queue("default", reason="migration")

    assert all(raw.smembers("paused") == {b"default"} for raw in shards.raw.values())
    assert [(each.name, each.reason) for each in client.pauses()] == [("default", "migration")]
    assert client.resume_queue("default")
    assert not any(raw.exists("paused") for raw in shards.raw.values())


def test_the_client_of_one_shard_does_all_there(client, shards):
    client.on("fast").push(ITEMS[0])

    assert waiting(shards)["mail-bulk"] == {"fast": 1}
    assert client.on("fast") is client.on("fast")
    assert [each.pool for each in client.each()] == list(client.pools())
    with pytest.raises(PayloadError, match=r"'nowhere' is not one of the shards \(mail, fast"):
        client.on("nowhere")


def test_middleware_that_is_added_later_holds_on_each_shard(client):
    one = client.on("fast")
    client.middleware.add(lambda *_: None)

    assert one.push(ITEMS[1]) is None


def test_a_moved_queue_is_pushed_to_its_new_shard(client, shards, monkeypatch):
    client.push(ITEMS[2])
    shards.raw["rest"].hset("kb:routes", "default", "fast")
    client.push(ITEMS[2])
    assert waiting(shards)["default"] == {"rest": 2}, "what was read is trusted for a while"

    monkeypatch.setattr(store_shards, "REREAD_S", 0.0)
    client.push(ITEMS[2])

    assert waiting(shards)["default"] == {"rest": 2, "fast": 1}
    assert client.shard_of("default") == "fast"


@pytest.mark.parametrize("target", ["rest", "nowhere"])
def test_a_move_in_a_circle_or_to_an_unknown_shard_stops_no_push(client, shards, target):
    shards.raw["rest"].hset("kb:routes", "default", target)

    assert client.push(ITEMS[2])
    assert waiting(shards)["default"] == {"rest": 1}


def test_a_shard_that_is_away_stops_only_its_own_queues(server):
    base = server.url.rpartition("/")[0]
    with embedded_server() as other:
        urls = {"mail": other.url, "fast": f"{base}/1", "rest": f"{base}/2"}
        shards = sharded(urls)
        client = shards.client()
        client.push(ITEMS[0])
    with pytest.raises(RedisUnavailable):
        client.push(ITEMS[0])
    with pytest.raises(RedisUnavailable):
        client.pause_queue("default")

    client.push(ITEMS[1])

    assert shards.raw["fast"].llen("queue:critical") == 1
    assert shards.raw["fast"].smembers("paused") == shards.raw["rest"].smembers("paused")
    assert shards.raw["rest"].smembers("paused") == {b"default"}
    client.close()


def test_the_environment_makes_the_default_client(shards, monkeypatch):
    for name, value in shards.environ.items():
        monkeypatch.setenv(name, value)
    client = Client()

    client.push(ITEMS[1])

    assert [json.loads(text)["args"] for text in shards.raw["fast"].lrange("queue:critical", 0, -1)] == [["critical"]]  # fmt: skip
    assert Client(shards.setting["rest"]["url"]).shards == ()
    client.close()
