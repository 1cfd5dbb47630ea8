"""Counters on their way to Redis (protocol §11): each count arrives once, whatever the network does."""

from types import SimpleNamespace

import pytest
from support.engine import UnreliableConnection

from kiqbridge.engine.settle.metrics import Stats
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()
GUARD = KEYS.stats_flush("host:1:aaa")


@pytest.fixture
def connection(redis_url):
    pool = RedisPool(redis_url)
    yield UnreliableConnection(pool.connection())
    pool.close()


@pytest.fixture
def thread():
    return SimpleNamespace(processed=0, failed=0)


@pytest.fixture
def stats(thread):
    return Stats([thread], KEYS, "host:1:aaa")


def test_a_flush_whose_reply_was_lost_counts_once(redis, connection, thread, stats):
    thread.processed, thread.failed = 5, 1
    connection.lose = {1}
    with pytest.raises(RedisUnavailable):
        stats.flush(connection, 0.0)
    thread.processed = 8
    stats.flush(connection, 86_400.0)

    assert (redis.get("stat:processed"), redis.get("stat:failed")) == (b"8", b"1")
    assert redis.get("stat:processed:1970-01-01") == b"5"
    assert redis.get("stat:processed:1970-01-02") == b"3"
    assert 0 < redis.ttl(GUARD) <= 28_800


def test_a_flush_that_arrives_late_counts_nothing(redis, connection, thread, stats):
    for processed in (5, 8):
        thread.processed = processed
        stats.flush(connection, 0.0)

    script = scripts.load("flush_stats")
    late = redis.eval(script.text, 2, GUARD, "stat:processed", "1", "60", "5", "")

    assert late == 0
    assert redis.get("stat:processed") == b"8"


def test_counting_goes_on_while_memory_is_full(redis, connection, thread, stats):
    thread.processed = 5
    redis.config_set("maxmemory", 1)
    try:
        stats.flush(connection, 0.0)
    finally:
        redis.config_set("maxmemory", 0)

    assert redis.get("stat:processed") == b"5"


def test_a_counter_that_is_none_any_more_does_not_make_the_others_count_twice(
    redis, connection, thread, stats
):
    redis.lpush("stat:failed", "not a number")
    for processed in (5, 8):
        thread.processed = thread.failed = processed
        stats.flush(connection, 0.0)

    assert redis.get("stat:processed") == b"8"
    assert redis.get("stat:failed:1970-01-01") == b"8"
