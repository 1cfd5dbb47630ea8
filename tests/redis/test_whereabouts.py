"""`find_job` finds a job wherever it is; signals reach a process."""

import json

import pytest

from kiqbridge.api import ProcessSet, find_job, read_audit


def text(jid, **more):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "queue": "default", **more})


def test_a_job_is_found_in_each_place(redis, operator):
    redis.zadd("retry", {text("a"): 1})
    redis.zadd("schedule", {text("a"): 1})
    redis.zadd("dead", {text("a"): 1})
    redis.sadd("queues", "low", "default")
    redis.lpush("queue:low", text("b"), text("a"))
    redis.sadd("processes", "h:1:x")
    redis.hset("h:1:x:work", "t1", json.dumps({"queue": "low", "payload": text("a"), "run_at": 1}))
    redis.sadd("kb:inflight", "v2:h:1:x:0")
    redis.hset("kb:claims:v2:h:1:x:0", "t1", "7 low")
    redis.lpush("kb:inflight:v2:h:1:x:0:t1:1", text("a"), text("b"))

    found = find_job("a", operator)

    assert [(each.place, each.name) for each in found] == [
        ("retry", "retry"),
        ("schedule", "schedule"),
        ("dead", "dead"),
        ("in flight", "low"),
        ("working", "h:1:x t1"),
        ("queue", "low"),
    ]
    assert {each.job.jid for each in found} == {"a"}
    assert found[0].job.delete()
    assert found[-1].job.delete()
    assert len(find_job("a", operator)) == 4


@pytest.mark.parametrize("jid", ["", "nothing", "\ud800"])
def test_what_is_nowhere_is_not_found(redis, operator, jid):
    redis.zadd("retry", {text("a"): 1, b"no json": 2})

    assert find_job(jid, operator) == []


@pytest.mark.parametrize(
    ("action", "signal"), [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump_threads", b"TTIN")]
)
def test_a_signal_is_put_where_the_process_takes_it(redis, operator, action, signal):
    redis.sadd("processes", "h:1:x")
    redis.hset("h:1:x", "info", json.dumps({"hostname": "h", "pid": 1}))
    [process] = ProcessSet(operator)

    getattr(process, action)()

    assert redis.lrange("h:1:x-signals", 0, -1) == [signal]
    assert 0 < redis.ttl("h:1:x-signals") <= 60
    [entry] = read_audit(operator)
    assert (entry.action, entry.target) == (action, "h:1:x")


def test_a_process_that_is_gone_is_taken_off(redis, operator):
    redis.sadd("processes", "h:1:x")

    ProcessSet(operator).cleanup()

    assert not redis.exists("processes")
