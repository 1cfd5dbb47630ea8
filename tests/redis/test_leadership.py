"""One leader at a time, by a key that ends by itself."""

import pytest
from support.servers import embedded_server
from support.waiting import wait_until

from kiqbridge.errors import RedisUnavailable
from kiqbridge.store.leadership import release_lead, renew_lead, take_lead
from kiqbridge.store.redis_pool import RedisPool

KEY = "kb:poller"


@pytest.fixture
def connection(redis_url):
    connection = RedisPool(redis_url).connection()
    yield connection
    connection.close()


def test_the_first_caller_leads_and_the_others_do_not(connection):
    assert take_lead(connection, KEY, "a", 60_000)
    assert not take_lead(connection, KEY, "b", 60_000)
    assert take_lead(connection, KEY, "a", 60_000)


def test_a_lead_ends_by_itself(connection, redis):
    assert take_lead(connection, KEY, "a", 50)

    wait_until(lambda: take_lead(connection, KEY, "b", 60_000))
    assert redis.get(KEY) == b"b"


def test_a_lead_that_is_released_is_free_at_once(connection):
    assert take_lead(connection, KEY, "a", 60_000)

    release_lead(connection, KEY, "a")

    assert take_lead(connection, KEY, "b", 60_000)


def test_nobody_releases_the_lead_of_another(connection, redis):
    assert take_lead(connection, KEY, "a", 60_000)

    release_lead(connection, KEY, "b")

    assert redis.get(KEY) == b"a"


def test_renewing_prolongs_a_lead_and_reports_one_that_was_lost(connection, redis):
    assert take_lead(connection, KEY, "a", 10_000)

    assert renew_lead(connection, KEY, "a", 60_000)
    assert redis.pttl(KEY) > 10_000
    assert not renew_lead(connection, KEY, "b", 60_000)
    redis.delete(KEY)
    assert not renew_lead(connection, KEY, "a", 60_000)
    assert not redis.exists(KEY)


def test_a_lead_is_taken_also_while_memory_is_full():
    with embedded_server(maxmemory="1") as server:
        connection = RedisPool(server.url).connection()

        with pytest.raises(RedisUnavailable, match="OOM"):
            connection.call("SET", "filler", "x")
        assert take_lead(connection, KEY, "a", 60_000)
        connection.close()
