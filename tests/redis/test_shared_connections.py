"""Connections that several threads share."""

import threading

import pytest
from support.waiting import wait_until

from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.shared_connections import SharedConnections

LEAD = scripts.load("lead")


@pytest.fixture
def shared(redis_url):
    pool = RedisPool(redis_url)
    yield SharedConnections(pool)
    pool.close_all()


def clients(redis):
    """Ids of all connections; some are of earlier tests, and may be closed at any moment."""
    return {client["id"] for client in redis.client_list()}


def opened(redis, before):
    """How many were opened since `before`."""
    return len(clients(redis) - before)


def test_calls_one_after_the_other_share_one(redis, shared):
    before = clients(redis)

    for each in [shared.connection() for _ in range(5)]:
        assert each.call("PING") == b"PONG"
        assert each.script(LEAD, ["kb:poller"], ["a", 1000]) == 1

    assert opened(redis, before) == 1
    assert repr(shared) == "SharedConnections(1 free)"


def test_calls_at_the_same_time_have_one_each(redis, shared):
    before = clients(redis)
    both = threading.Barrier(2, timeout=10)
    take = shared.take

    def taken():
        connection = take()
        both.wait()
        return connection

    shared.take = taken
    threads = [threading.Thread(target=shared.connection().call, args=("PING",)) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert opened(redis, before) == 2


def test_those_that_idle_are_closed_and_opened_again_when_needed(redis, shared):
    before = clients(redis)
    connection = shared.connection()
    connection.call("PING")
    shared.trim(1000)
    assert opened(redis, before) == 1

    shared.trim(0)

    wait_until(lambda: opened(redis, before) == 0, what="the end of what was opened")
    assert connection.call("PING") == b"PONG"


def test_an_error_of_one_call_does_not_reach_another(redis, shared):
    redis.set("text", "no list")
    one, other = shared.connection(), shared.connection()

    with pytest.raises(RedisRefused):
        one.call("LPUSH", "text", "a")

    assert other.call("GET", "text") == b"no list"


def test_one_that_is_out_of_step_is_closed(redis, shared):
    one, other = shared.connection(), shared.connection()
    one.call("PING")
    [id_] = [each["id"] for each in redis.client_list() if each["cmd"] == "ping"]

    one.close()

    assert id_ not in [each["id"] for each in redis.client_list()]
    assert other.call("PING") == b"PONG"


def test_one_that_is_out_of_step_and_in_use_is_closed_when_its_call_ends(redis, shared):
    one = shared.connection()
    one.call("PING")
    used = shared.take()
    assert used.call("PING") == b"PONG"

    one.close()

    assert used.call("PING") == b"PONG"
    before = clients(redis)
    shared.put(used)
    wait_until(lambda: before - clients(redis), what="the end of what was out of step")
    wait_until(lambda: opened(redis, before) == 0, what="the end of what was opened")


def test_how_much_goes_into_one_call_is_known_from_call_to_call(shared):
    connection = shared.connection()
    connection.batch_bytes = 20_000

    connection.call("PING")

    assert connection.batch_bytes == 20_000


def test_a_pool_closes_what_idles(redis, redis_url):
    pool = RedisPool(redis_url)
    before = clients(redis)
    pool.call("PING")
    pool.trim(1000)
    assert opened(redis, before) == 1

    pool.trim(0)

    wait_until(lambda: opened(redis, before) == 0, what="the end of what was opened")
    assert pool.call("PING") == b"PONG"
    pool.close()
