"""Batches, chains and groups on several servers: each lies on the shard of its first job's queue, with all its jobs."""

import json
import time

import pytest
from support.servers import embedded_server
from support.shards import sharded

from kiqbridge import job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.errors import BatchError, PayloadError, RedisUnavailable
from kiqbridge.flow import Batch, BatchSet, call, chain, group
from kiqbridge.flow.flow_place import shard_of_batch
from kiqbridge.outbox.effects import Scene
from kiqbridge.outbox.outbox import Outbox
from kiqbridge.wire.flow_mark import FlowEnd


@pytest.fixture(scope="module")
def declared():
    with own_default_client():

        @job(name="FlowShardsSend", queue="mail")
        def send(number: int) -> None: ...

        @job(name="FlowShardsReport")
        def report(number: int) -> None: ...

        yield send, report


@pytest.fixture
def client(shards, monkeypatch):
    client = shards.client()
    monkeypatch.setattr("kiqbridge.client.default_client._default", client)
    yield client
    client.close()


@pytest.fixture
def send(declared, client):
    return declared[0]


@pytest.fixture
def report(declared, client):
    return declared[1]


def keys(shards):
    """Shard → how many keys of batches and queues it has."""
    return {
        name: (len(raw.keys("kb:flow:batch:*:jobs")), len(raw.keys("queue:*")))
        for name, raw in shards.raw.items()
    }


NOTHING = {"mail": (0, 0), "fast": (0, 0), "rest": (0, 0)}


def end_all(shards, client, shard, queue):
    """The jobs of a queue are done, as a worker of that shard reports it."""
    raw, one = shards.raw[shard], client.on(shard)
    outbox = Outbox(Scene(one.keys, one), one.pool.connection())
    while text := raw.rpop(f"queue:{queue}"):
        payload = json.loads(text)
        about = {"flow": payload["flow"], "jid": payload["jid"], "job_class": payload["class"]}
        end = FlowEnd(**about, outcome="done", at=time.time(), output=None)
        raw.zadd("kb:flow:ends", {end.to_text(): 0})
        while raw.exists("kb:flow:ends"):
            outbox.look()


def test_a_batch_lies_on_the_shard_of_its_first_jobs_queue_and_is_found_there(
    client, shards, send, report
):
    with Batch(on_success=call(send.set(queue="mail-late"), 3)) as batch:
        send.perform_async(1)
        send.set(queue="mail-bulk").perform_async(2)
    with Batch() as other:
        report.perform_async(1)

    assert keys(shards) == {"mail": (1, 2), "fast": (0, 0), "rest": (1, 1)}
    found = Batch(batch.bid)
    assert (found.status().total, len(found.pending_jids())) == (2, 2)
    assert shard_of_batch(client, other.bid) == "rest"
    end_all(shards, client, "mail", "mail")
    end_all(shards, client, "mail", "mail-bulk")
    assert batch.status().success
    assert shards.raw["mail"].llen("queue:mail-late") == 1


def test_jobs_added_later_go_where_the_batch_lies(shards, send, report):
    with Batch() as batch:
        send.perform_async(1)

    Batch(batch.bid).add(send, 2)
    with Batch(batch.bid):
        send.set(queue="mail-bulk").perform_async(3)
    with pytest.raises(PayloadError, match=r"queue 'default' on shard rest.* lie on shard mail"):
        Batch(batch.bid).add(report, 4)
    with Batch(batch.bid):
        pass

    assert batch.status().total == 3
    assert keys(shards) == {"mail": (1, 2), "fast": (0, 0), "rest": (0, 0)}


def test_a_batch_is_cancelled_on_its_shard_with_its_children(shards, send):
    with Batch() as parent:
        send.perform_async(1)
        with Batch() as child:
            send.perform_async(2)

    Batch(parent.bid).cancel()

    assert child.status().cancelled_at is not None
    assert shards.raw["mail"].zcard("kb:flow:cancelled") == 2
    assert not shards.raw["rest"].exists("kb:flow:cancelled")


@pytest.mark.parametrize("place", ["job", "callback", "chain", "group", "child"])
def test_a_job_of_another_shard_is_refused_before_anything_is_written(shards, send, report, place):
    def fill():
        with Batch(on_complete=call(report, 9) if place == "callback" else None) as batch:
            send.perform_async(1)
            if place == "job":
                report.perform_async(2)
            elif place == "chain":
                chain(call(send, 2), call(report, 3)).perform_async()
            elif place == "group":
                batch.add(group(call(send, 2), chain(call(send, 3), call(report, 4))))
            elif place == "child":
                with Batch():
                    report.perform_async(2)

    with pytest.raises(PayloadError, match=r"FlowShardsReport.* on shard rest.* on shard mail"):
        fill()

    assert keys(shards) == NOTHING


def test_a_chain_and_a_group_lie_on_the_shard_of_their_first_job(client, shards, send, report):
    chain(call(send, 1), call(send.set(queue="mail-bulk"), 2)).perform_async()
    group(call(report, 1), call(report, 2), then=call(report, 3)).perform_async()

    assert keys(shards) == {"mail": (0, 1), "fast": (0, 0), "rest": (1, 1)}
    end_all(shards, client, "mail", "mail")
    assert shards.raw["mail"].llen("queue:mail-bulk") == 1
    with pytest.raises(PayloadError, match=r"chain of 2.* on shard rest"):
        chain(call(send, 1), call(report, 2)).perform_async()
    with pytest.raises(PayloadError, match="on shard mail"):
        group(call(report, 1), call(send, 2)).perform_async()


def test_a_batch_goes_on_where_it_is_when_its_queue_was_moved(client, shards, send):
    with Batch() as batch:
        send.perform_async(1)
    shards.raw["mail"].hset("kb:routes", "mail", "rest 1")
    shards.raw["rest"].hset("kb:routes:from", "mail", f"mail {time.time() + 1000:.0f}")
    client.writer.look_again()

    assert client.shard_of("mail") == "rest"
    batch.add(send, 2)
    with Batch():
        send.perform_async(3)

    assert batch.status().total == shards.raw["mail"].llen("queue:mail") == 2
    assert shards.raw["rest"].llen("queue:mail") == 1


def test_all_batches_are_listed_the_latest_change_first(shards, send, report):
    made = []
    for number, each in enumerate((send, report, send, report)):
        with Batch(description=str(number)) as batch:
            each.perform_async(1)
        made.append(batch.bid)
    for number, bid in enumerate(made):
        for raw in shards.raw.values():
            raw.zadd("kb:flow:batches", {bid: number}, xx=True)

    assert [each.description for each in BatchSet()] == ["3", "2", "1", "0"]
    assert len(BatchSet()) == 4


def test_one_that_lies_nowhere_is_gone(shards, send):
    batch = Batch("0" * 24)

    for act in (batch.status, batch.cancel, batch.close, lambda: batch.add(send, 1)):
        with pytest.raises(BatchError, match="no such batch"):
            act()
    assert batch.pending_jids() == []
    assert keys(shards) == NOTHING


def test_a_batch_is_found_while_another_shard_is_away_and_not_said_to_be_gone(
    shards, server, send, report, monkeypatch
):
    with Batch() as batch:
        report.perform_async(1)
    with embedded_server() as away:
        url = away.url
    urls = {name: each["url"] for name, each in shards.setting.items()}
    others = sharded({**urls, "mail": url})
    client = others.client()
    monkeypatch.setattr("kiqbridge.client.default_client._default", client)

    assert Batch(batch.bid).status().total == 1
    with pytest.raises(RedisUnavailable, match="mail"):
        Batch("0" * 24).status()
    client.close()
    for raw in others.raw.values():
        raw.close()
