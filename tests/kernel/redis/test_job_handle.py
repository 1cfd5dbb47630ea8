"""What a push returns, asked about its job on a real server: in each place, and in the fleet of its queue."""

import json
import time

import pytest

from kiqbridge import Client


def item(**more):
    return {"class": "Nop", "args": [], **more}


def beat(redis, identity, text):
    """Let a process show this job as one that runs."""
    redis.sadd("processes", identity)
    work = {"queue": "default", "run_at": int(time.time()), "payload": text.decode()}
    redis.hset(f"{identity}:work", "t1", json.dumps(work))


def test_the_way_of_a_job_through_a_worker_of_ours(redis, client, process):
    handle = client.push(item())
    assert (handle.status(), handle.job().jid) == ("queued", handle)

    claimer = process.claimer()
    text = claimer.claim(["default"], 1).take()
    beat(redis, "host:1:aaa", text)
    assert (handle.status(), handle.job().jid) == ("running", handle)
    assert (handle.job().delete(), handle.job().retry(), handle.job().kill()) == (False,) * 3

    claimer.claim(["default"], 1)  # acknowledges it; the heartbeat still shows it
    assert (handle.status(), handle.job()) == ("unknown", None)


@pytest.mark.parametrize("identity", ["ruby:7:abc", "host:1:aaa"])
def test_what_ruby_or_basic_fetch_runs_is_known_from_the_heartbeat(
    redis, client, process, identity
):
    handle = client.push(item())
    beat(redis, identity, redis.lpop("queue:default"))

    assert handle.status() == "running"

    redis.zadd("retry", {handle.job().text: 2e9})  # since the heartbeat
    assert handle.status() == "retrying"


@pytest.mark.parametrize(
    ("key", "status"), [("schedule", "scheduled"), ("retry", "retrying"), ("dead", "dead")]
)
def test_a_job_in_a_set(redis, client, key, status):
    handle = client.push(item())
    redis.zadd(key, {redis.lpop("queue:default"): 2e9})

    assert handle.status() == status
    assert handle.job().delete()
    assert (handle.status(), handle.job()) == ("deleted", None)


def test_one_that_waits_to_run_alone_is_queued(redis, client):
    handle = client.push(item())
    redis.rename("queue:default", "kb:suspects:default")

    assert handle.status() == "queued"


def test_a_handle_asks_in_the_namespace_where_its_job_was_pushed(redis_url, client):
    shop = Client(redis_url, namespace="shop")
    here, there = client.push(item()), shop.push(item())

    assert here.status() == there.status() == "queued"
    assert client.handle(there).status() == shop.handle(here).status() == "unknown"
    shop.close()
