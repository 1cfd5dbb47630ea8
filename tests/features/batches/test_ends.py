"""Ends of jobs of batches, as the thread applies them that applies all ends."""

import json
from contextlib import suppress

import pytest
from support.jobs import own_declarations
from support.servers import without_command
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.errors import RedisRefused
from kiqbridge.flow import Batch
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.flow_mark import FlowEnd


def leave(redis, end):
    redis.zadd("kb:flow:ends", {end.to_text(): 0})


@pytest.mark.parametrize("command", ["hsetnx", "hset", "hmget", "hincrby", "zadd", "exists"])
def test_the_end_of_a_batch_whose_effect_is_refused_in_the_middle_comes_about_later(
    client, redis, server, command
):
    with own_declarations():

        @job(name="Report")
        def report(): ...

        with Batch(on_success=report, client=client) as batch:
            batch.push({"class": "Bill", "args": []})
        payload = json.loads(redis.lpop("queue:default"))
        end = FlowEnd(
            flow=payload["flow"], jid=payload["jid"], job_class="Bill", outcome="done", at=5.0
        )
        leave(redis, end)
        with without_command(redis, server, command) as url:
            connection = RedisPool(url).connection()
            refused = Outbox(client, connection)
            for _ in "12":
                with suppress(RedisRefused):  # at once where it is the first command
                    refused.look()
                due_again(redis)
            connection.close()

        outbox = Outbox(client, client.pool.connection())
        while outbox.look():
            due_again(redis)

    assert [json.loads(text)["class"] for text in redis.lrange("queue:default", 0, -1)] == [
        "Report"
    ]
    assert not redis.exists("kb:flow:ends")


def due_again(redis):
    """As if the time were over for which an outbox has taken ends."""
    for text in redis.zrange("kb:flow:ends", 0, -1):
        redis.zadd("kb:flow:ends", {text: 0})


@pytest.fixture
def outbox(client):
    outbox = Outbox(client, client.pool.connection(), look_s=0.02)
    yield outbox
    outbox.stop()


def test_a_batch_that_is_cancelled_is_read_when_the_beat_finds_it(outbox, client):
    outbox.note(ends=False, cancelled=b"")
    outbox.start()
    with Batch(client=client) as batch:
        client.push({"class": "Bill", "args": []})
    batch.cancel()

    outbox.note(ends=False, cancelled=b"1 " + batch.bid.encode())
    wait_until(lambda: outbox.up, what="the cancelled batch")
    [barrier] = outbox.up
    assert barrier.bids == {batch.bid}
    outbox.note(ends=False, cancelled=b"")

    wait_until(lambda: not outbox.up, what="the end of its time")
