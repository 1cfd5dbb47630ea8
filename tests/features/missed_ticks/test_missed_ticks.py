"""A worker without AWS: a tick that does not come is logged, enqueued by policy, and sent to the hooks."""

import json

import pytest
from support.http_endpoint import webhook
from support.waiting import wait_until

from kiqbridge.features.publishing.function import publish_manifest
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job, server
from support.noting import note

@server.missed_tick_handler
def note_tick(tick):
    note(tick.schedule)

@job(name="Report")
def report(): ...
"""
RULE = {
    "expression": "cron(* * * * ? *)",
    "jobs": [{"class": "Report", "args": []}],
    "origin": "template",
    "grace_s": 1,
}


@pytest.fixture
def hook():
    with webhook() as listening:
        yield listening


@pytest.fixture
def expected(client, redis):
    """Publish two rules that were due three times since, and of which nothing came."""
    schedules = {"Alert": RULE, "All": RULE | {"missed": "all"}}
    manifest = {"version": 1, "hash": "x", "schedules": schedules}
    publish_manifest(client.pool, Keys(), manifest, stack="shop", by="test")
    since = int(redis.time()[0]) // 60 * 60 - 150
    for name, text in redis.hgetall("kb:schedules").items():
        redis.hset("kb:schedules", name, json.dumps(json.loads(text) | {"since": since}))
    return [since // 60 * 60 + 60 * number for number in (1, 2)]


def test_without_aws_the_leader_finds_notifies_and_enqueues(start, redis, seen, expected, hook):
    address, received = hook

    worker = start("-q", "default", KIQBRIDGE_MISSED_TICK_WEBHOOK=address)
    wait_until(lambda: sum(each["count"] for each in received) >= 4, timeout_s=60)
    wait_until(lambda: int(redis.get("stat:processed") or 0) >= 2, timeout_s=60)
    worker.kill()

    told = [
        (tick["schedule"], tick["at"], tick["enqueued"])
        for each in received
        for tick in each["ticks"]
    ]
    assert len(set(told)) == len(told)
    assert {schedule for schedule, _, enqueued in told if enqueued} == {"shop/All"}
    entries = [json.loads(text) for text in redis.zrange("kb:ticks:shop/All", 0, -1)]
    assert [each["at"] for each in entries][:2] == expected
    assert all(each["by"].startswith("worker:") for each in entries)
    assert not redis.exists("kb:ticks:shop/Alert")
    assert set(seen.events()) == {"shop/Alert", "shop/All"}
    assert "schedule shop/Alert: " in worker.output
    assert " did not come, " in worker.output
    assert "s3cret" not in worker.output
