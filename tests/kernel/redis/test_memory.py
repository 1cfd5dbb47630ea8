"""The memory of `kiqbridge.testing.fake` answers as a server does: the same calls on both, the same replies."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.proving import sized

from kiqbridge import Client
from kiqbridge.runtime.clock import use_clock
from kiqbridge.store.redis_pool import use_stand_in
from kiqbridge.testing import fake
from kiqbridge.testing.memory import Memory

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["1", "x", "y"])
SCORES = st.sampled_from(["-1.5", "0", "2", "7.25"])
PLACES = st.integers(-4, 4)


def command(*parts):
    return st.tuples(
        *(part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts)
    )


CALLS = st.one_of(
    command(st.sampled_from(["SADD", "SREM", "SISMEMBER"]), "set", VALUES),
    command("SCARD", "set"),
    command(st.sampled_from(["LPUSH", "RPUSH"]), "list", VALUES, VALUES),
    command(st.sampled_from(["LPOP", "RPOP", "LLEN"]), "list"),
    command("LRANGE", "list", PLACES, PLACES),
    command("ZADD", "zset", SCORES, NAMES, SCORES, NAMES),
    command("ZADD", "zset", st.sampled_from(["NX", "XX", "GT", "LT", "CH"]), SCORES, NAMES),
    command("ZREM", "zset", NAMES, NAMES),
    command("ZSCORE", "zset", NAMES),
    command("ZCARD", "zset"),
    command("ZRANGE", "zset", PLACES, PLACES, "WITHSCORES"),
    command("ZRANGE", "zset", PLACES, PLACES, "REV"),
    command("ZRANGEBYSCORE", "zset", st.sampled_from(["-inf", "(0", "0"]), st.sampled_from(["2", "(2", "+inf"])),
    command("ZRANGEBYSCORE", "zset", "-inf", "+inf", "WITHSCORES", "LIMIT", 1, 2),
    command("HSET", "hash", NAMES, VALUES, NAMES, VALUES),
    command("HSETNX", "hash", NAMES, VALUES),
    command(st.sampled_from(["HGET", "HEXISTS", "HDEL"]), "hash", NAMES),
    command("HMGET", "hash", NAMES, NAMES),
    command("HLEN", "hash"),
    command("HINCRBY", "counts", NAMES, PLACES),
    command("GET", "text"),
    command("SET", "text", VALUES),
    command("SET", "text", VALUES, st.sampled_from(["NX", "XX", "GET"])),
    command("SET", "text", VALUES, "EX", 1000),
    command("PERSIST", "text"),
    command("TYPE", NAMES),
    command("ZCOUNT", "zset", "-inf", st.sampled_from(["(2", "7.25"])),
    command("ZREMRANGEBYSCORE", "zset", "-inf", st.sampled_from(["(0", "2"])),
    command("ZREMRANGEBYRANK", "zset", PLACES, PLACES),
    command("ZRANGE", "zset", "(-1.5", "+inf", "BYSCORE"),
    command("LINDEX", "list", PLACES),
    command("LTRIM", "list", PLACES, PLACES),
    command(st.sampled_from(["EXPIRE", "PEXPIRE"]), "text", 2_000_000),
    command("EXPIRE", "text", 1000, "NX"),
    command("INCR", "number"),
    command("INCRBY", "number", PLACES),
    command(st.sampled_from(["DEL", "UNLINK", "EXISTS"]), "text", "list", "zset"),
    command("PING"),
)  # fmt: skip


@pytest.fixture
def server_client(redis_url):
    client = Client(redis_url)
    yield client
    client.close()


def test_commands_answer_as_those_of_a_server(pool):
    @settings(max_examples=sized(full=500, sample=20), deadline=None, database=None)
    @given(st.lists(CALLS, min_size=1, max_size=20))
    def same(calls):
        pool.call("FLUSHALL")
        memory = Memory(lambda: 1_000_000.0)
        got = memory.run(calls)

        assert got == pool.run(*calls)
        assert sorted(memory.values) == sorted(key.decode() for key in pool.call("KEYS", "*"))
        assert memory.run([("MULTI",), calls[-1], ("EXEC",)])[1:2] == [b"QUEUED"]

    same()


def test_replies_without_order_hold_the_same(pool):
    calls = [("SADD", "s", "b", "a"), ("HSET", "h", "x", 1, "y", 2.5), ("EXPIRE", "h", 100)]
    memory = Memory(lambda: 12.25)
    memory.run(calls)
    pool.run(*calls)

    assert sorted(memory.run([("SMEMBERS", "s")])[0]) == sorted(pool.call("SMEMBERS", "s"))
    assert memory.run([("HGETALL", "h")])[0] == pool.call("HGETALL", "h")
    assert memory.run([("PTTL", "h"), ("TIME",)]) == [100_000, [b"12", b"250000"]]
    assert pool.call("PTTL", "h") <= 100_000


def test_a_key_is_forgotten_when_the_clock_has_moved():
    now = [0.0]
    memory = Memory(lambda: now[0])
    memory.run([("SET", "text", "x", "EX", 10)])
    now[0] = 11.0

    assert memory.run([("GET", "text"), ("TTL", "text"), ("EXISTS", "text")]) == [None, -2, 0]


def pushed(client):
    """What becomes of pushes of all kinds."""
    items = [{"class": "Nop", "args": [number], "jid": f"jid{number}"} for number in range(3)]
    answers = [
        client.push_once(items, ["a", None, "a"]),
        client.push_once(items[:1], ["a"]),
        client.push_tick("nightly", 1_700_000_000, items[:2], by="me", horizon_s=10**9),
        client.push_tick("nightly", 1_700_000_000, items[:2], by="me", horizon_s=10**9),
        client.push_tick("nightly", 1_000_000_000, items[:2], by="me", horizon_s=1000),
        client.push_tick("nightly", 4_000_000_000, items[:2], by="me", ahead_s=60),
    ]
    with pytest.raises(Exception, match="default") as deep:
        client.push_once([{**items[0], "jid": "other"}], [None], limits={"default": 1})
    answers.append(str(deep.value))
    client.push({**items[0], "jid": "later", "at": 4_000_000_000.5})
    client.push_bulk({"class": "Nop", "args": [[1], [2]], "queue": "low"})
    return answers


def kept(pool):
    """The jobs in Redis without what differs from push to push."""

    def read(text):
        payload = json.loads(text)
        payload.pop("created_at")
        payload.pop("enqueued_at", None)
        return payload if payload["queue"] != "low" else {**payload, "jid": ""}

    found = {}
    for name in ("default", "low"):
        found[name] = [read(text) for text in pool.call("LRANGE", f"queue:{name}", 0, -1)]
    scheduled = pool.call("ZRANGE", "schedule", 0, -1, "WITHSCORES")
    found["schedule"] = [read(scheduled[0]), float(scheduled[1])]
    found["queues"] = sorted(pool.call("SMEMBERS", "queues"))
    found["ledger"] = len(pool.call("ZRANGE", "kb:ticks:nightly", 0, -1))
    found["attempts"] = pool.call("HGETALL", "kb:attempts:nightly")
    found["guards"] = len(pool.call("HGETALL", "kb:guards"))
    return found


def test_pushes_leave_in_memory_what_they_leave_on_a_server(server_client, pool):
    there = pushed(server_client), kept(pool)
    with fake():
        here = pushed(server_client), kept(pool)

    assert here == there


def test_nothing_stands_in_after_a_fake():
    with fake():
        pass
    assert (use_stand_in(None), use_clock(None)) == (None, None)
