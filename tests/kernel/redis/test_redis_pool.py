"""Connections shared by the threads of a process."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
import redis as redis_py
from support.waiting import at_once, wait_until

from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool


def test_no_more_connections_are_out_than_its_size(proxy, redis):
    pool = RedisPool(proxy.url, size=2)
    at_once(*[lambda: [pool.call("INCR", "counter") for _ in range(20)]] * 6)

    assert redis.get("counter") == b"120"
    assert proxy.connections <= 2
    assert "idle)" in repr(pool)
    pool.close()


def test_a_forked_child_does_not_share_the_parents_connections(redis_url, redis):
    script = """
        import os, sys
        from kiqbridge import Client

        client = Client(sys.argv[1])
        client.push({"class": "EchoJob", "args": ["before"]})
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:
                for step in range(100):
                    client.push({"class": "EchoJob", "args": [number, step]})
                os._exit(0)
            children.append(child)
        for step in range(100):
            client.push({"class": "EchoJob", "args": ["parent", step]})
        codes = [os.waitpid(child, 0)[1] for child in children]
        client.push({"class": "EchoJob", "args": ["after"]})
        sys.exit(max(codes))
    """

    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), redis_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env=dict(os.environ),
    )

    assert outcome.returncode == 0, outcome.stderr
    assert redis.llen("queue:default") == 402


def test_replies_are_bytes_and_errors_are_translated(redis_url, redis):
    pool = RedisPool(redis_url)

    assert pool.run(("SET", "a", "é"), ("GET", "a")) == [b"OK", "é".encode()]
    with pytest.raises(RedisRefused, match="WRONGTYPE") as refusal:
        pool.run(("LPUSH", "a", "x"), ("GET", "a"))
    assert isinstance(refusal.value.__cause__, redis_py.exceptions.ResponseError)
    assert pool.call("GET", "a") == "é".encode()
    pool.close()


def test_a_client_that_decodes_is_used_with_bytes(redis_url, redis):
    with redis_py.Redis.from_url(redis_url, decode_responses=True) as given:
        pool = RedisPool(client=given)

        assert pool.run(("SET", "a", b"\xff"), ("GET", "a")) == [b"OK", b"\xff"]
        pool.close()


def test_nobody_waits_for_ever_for_a_connection(redis_url, redis):
    pool = RedisPool(redis_url, size=1, wait_s=0.1)
    blocked = threading.Thread(target=pool.run, args=(("BLPOP", "never", "1"),))
    blocked.start()
    wait_until(lambda: redis.info("clients")["blocked_clients"] == 1, what="a blocked client")

    with pytest.raises(RedisUnavailable, match=r"all 1 connections .* in use for 0\.1 s"):
        pool.call("PING")

    blocked.join()
    assert pool.call("PING") == b"PONG"
    pool.close()


def test_a_place_that_an_error_takes_away_comes_back(redis_url, redis):
    pool = RedisPool(redis_url, size=2, wait_s=5)

    for _ in range(10):  # as by an error that rises between the taking and the `try`
        pool._slots.get(timeout=5)

    assert pool.call("PING") == b"PONG"
    pool.close()


LEAD = scripts.load("lead")


@pytest.fixture
def shared(redis_url):
    pool = RedisPool(redis_url)
    yield pool
    pool.close_all()


def clients(redis):
    """Ids of all connections; some are of earlier tests, and may be closed at any moment."""
    return {client["id"] for client in redis.client_list()}


def opened(redis, before):
    """How many were opened since `before`."""
    return len(clients(redis) - before)


def test_calls_one_after_the_other_share_one(redis, shared):
    before = clients(redis)

    for each in [shared.shared_connection() for _ in range(5)]:
        assert each.call("PING") == b"PONG"
        assert each.script(LEAD, ["kb:poller"], ["a", 1000]) == 1

    assert opened(redis, before) == 1


def test_calls_at_the_same_time_have_one_each(redis, shared):
    before = clients(redis)
    both = threading.Barrier(2, timeout=10)
    take = shared.take

    def taken():
        connection = take()
        both.wait()
        return connection

    shared.take = taken
    at_once(*[lambda: shared.shared_connection().call("PING")] * 2)

    assert opened(redis, before) == 2


def test_those_that_idle_are_closed_and_opened_again_when_needed(redis, shared):
    before = clients(redis)
    connection = shared.shared_connection()
    connection.call("PING")
    shared.trim(1000)
    assert opened(redis, before) == 1

    shared.trim(0)

    wait_until(lambda: opened(redis, before) == 0, what="the end of what was opened")
    assert connection.call("PING") == b"PONG"


def test_an_error_of_one_call_does_not_reach_another(redis, shared):
    redis.set("text", "no list")
    one, other = shared.shared_connection(), shared.shared_connection()

    with pytest.raises(RedisRefused):
        one.call("LPUSH", "text", "a")

    assert other.call("GET", "text") == b"no list"


def test_one_that_is_out_of_step_is_not_used_any_more(redis, shared):
    one, other = shared.shared_connection(), shared.shared_connection()
    one.call("PING")
    [id_] = [each["id"] for each in redis.client_list() if each["cmd"] == "ping"]

    one.close()

    assert other.call("PING") == b"PONG"
    assert id_ not in [each["id"] for each in redis.client_list()]


def test_how_much_goes_into_one_call_is_known_from_call_to_call(shared):
    connection = shared.shared_connection()
    connection.batch_bytes = 20_000

    connection.call("PING")

    assert connection.batch_bytes == 20_000
