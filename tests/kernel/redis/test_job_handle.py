"""What a push returns, asked about its job on a real server: in each place, and in the fleet of its queue."""

import json
import time

import pytest

from kiqbridge import Client
from kiqbridge.api import find_state

JID = "b4a577edbccf1d805744efa9"


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

    redis.set(f"kb:result:{handle}", '{"outcome":"done","at":1,"value":[7]}')
    assert (handle.status(), handle.result(timeout=0)) == ("done", [7])


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
    redis.set(f"kb:result:{handle}", '{"outcome":"dead","at":1}')  # it was revived since
    redis.zadd(key, {redis.lpop("queue:default"): 2e9})

    assert handle.status() == status
    assert handle.job().delete()
    assert (handle.status(), handle.job()) == ("dead", None)


def test_one_that_waits_to_run_alone_is_queued(redis, client):
    handle = client.push(item())
    redis.rename("queue:default", "kb:suspects:default")

    assert handle.status() == "queued"


@pytest.mark.parametrize("outcome", ["dead", "discarded", "skipped", "expired", "cancelled"])
def test_how_a_job_has_ended_is_its_state_while_that_is_kept(redis, operator, outcome):
    redis.set(f"kb:result:{JID}", json.dumps({"outcome": outcome, "at": 1}))

    state = find_state(JID, operator)

    assert (state.status, state.found, state.result.outcome) == (outcome, None, outcome)


def test_a_handle_asks_in_the_namespace_where_its_job_was_pushed(redis_url, client):
    shop = Client(redis_url, namespace="shop")
    here, there = client.push(item()), shop.push(item())

    assert here.status() == there.status() == "queued"
    assert client.handle(there).status() == shop.handle(here).status() == "unknown"
    shop.close()
