"""One leader at a time, by a key that ends by itself."""

import pytest
from support.servers import embedded_server
from support.waiting import wait_until

from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import leadership
from kiqbridge.store.leadership import Lead
from kiqbridge.store.redis_pool import RedisPool

KEY = "kb:poller"


@pytest.fixture
def lead(redis_url):
    """`lead(who)`: one that `who` may take."""
    connection = RedisPool(redis_url).connection()
    yield lambda who, lead_s=60.0: Lead(connection, KEY, who, lead_s)
    connection.close()


def test_the_first_caller_leads_until_it_releases_and_no_other_one_does(lead):
    a, b = lead("a"), lead("b")

    assert a.take()
    assert not b.take()
    b.release()
    assert not b.take()
    assert a.take()
    a.release()

    assert b.take()


def test_a_lead_ends_by_itself(lead, redis):
    assert lead("a", 0.05).take()

    wait_until(lead("b").take)
    assert redis.get(KEY) == b"1 b"


def test_renewing_prolongs_a_lead_and_changes_its_text(lead, redis):
    assert lead("a", 10.0).take()

    assert lead("a").take()
    assert redis.pttl(KEY) > 10_000
    assert redis.get(KEY) == b"2 a"


@pytest.mark.parametrize("ttl_ms", [600_000, None])
def test_a_lead_that_is_not_renewed_is_over_after_its_term_whatever_its_ttl_says(
    lead, redis, monkeypatch, ttl_ms
):
    now = [1000.0]
    monkeypatch.setattr(leadership.time, "monotonic", lambda: now[0])
    dead, living, next_one = lead("dead", 8.0), lead("living", 8.0), lead("next", 8.0)
    assert dead.take()
    assert not next_one.take()
    # As after the server's clock was set back.
    redis.pexpire(KEY, ttl_ms) if ttl_ms else redis.persist(KEY)

    now[0] += 7.9
    assert not next_one.take()
    now[0] += 0.2
    assert next_one.is_vacant(redis.get(KEY))
    assert next_one.take()

    for _ in range(5):
        next_one.take()
        assert not living.take()
        now[0] += 3.0
    assert not living.is_vacant(redis.get(KEY))


def test_a_lead_is_taken_also_while_memory_is_full():
    with embedded_server(maxmemory="1") as server:
        connection = RedisPool(server.url).connection()

        with pytest.raises(RedisUnavailable, match="OOM"):
            connection.call("SET", "filler", "x")
        assert Lead(connection, KEY, "a", 60.0).take()
        connection.close()
