"""Connections shared by the threads of a process."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import redis as redis_py
from support.waiting import wait_until

from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool


def test_no_more_connections_are_out_than_its_size(proxy, redis):
    pool = RedisPool(proxy.url, size=2)
    threads = [
        threading.Thread(target=lambda: [pool.call("INCR", "counter") for _ in range(20)])
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

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


def test_waiting_for_a_free_connection_ends_when_one_is_given_back(redis_url, redis):
    pool = RedisPool(redis_url, size=1)
    started = time.monotonic()

    threads = [threading.Thread(target=pool.call, args=("PING",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.monotonic() - started < 5
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
