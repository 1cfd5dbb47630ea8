"""Connections that several threads share."""

import threading

import pytest
from support.waiting import wait_until

from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool

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
    threads = [
        threading.Thread(target=shared.shared_connection().call, args=("PING",)) for _ in "12"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

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
