"""The connection to which the server reports changes of keys."""

import logging
import threading

import pytest
from support.servers import without_command
from support.waiting import wait_until

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.tracking import TrackingConnection


def connector(url):
    pool = RedisPool(url)
    return lambda: pool.raw_connection(protocol=3)


@pytest.fixture
def tracking(redis_url):
    tracking = TrackingConnection(connector(redis_url))
    yield tracking
    tracking.close()


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (("EXISTS", "queue:a", "queue:b"), ("LPUSH", "queue:b", "job")),
        (("EXISTS", "queue:a"), ("EVAL", "redis.call('LPUSH', KEYS[1], 'job')", 1, "queue:a")),
        (("ZRANGE", "schedule", 0, 0), ("ZADD", "schedule", 1, "job")),
        (("SMEMBERS", "paused"), ("SADD", "paused", "a")),
    ],
)
def test_a_foreign_write_to_a_key_that_was_read_ends_the_wait(redis, tracking, read, change):
    tracking.read(read)

    redis.execute_command(*change)

    assert tracking.wait(10)


def test_without_a_change_the_wait_ends_with_the_time(tracking):
    tracking.read(("EXISTS", "queue:a"))

    assert not tracking.wait(0.01)


def test_a_change_before_the_wait_is_not_missed(redis, tracking):
    tracking.read(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")
    tracking.read(("PING",))  # the message is already on the connection

    tracking.read(("EXISTS", "queue:a"))
    assert not tracking.wait(0.01)  # read anew, so nothing is due
    redis.lpush("queue:a", "job")
    assert tracking.wait(10)


def test_replies_and_messages_do_not_mix(redis, tracking):
    tracking.read(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")

    assert tracking.read(("EXISTS", "queue:a"), ("LLEN", "queue:a")) == [1, 1]


def test_a_cut_connection_raises_once_and_is_opened_anew(redis, tracking):
    tracking.read(("EXISTS", "queue:a"))
    redis.client_kill_filter(_type="normal", skipme=True)

    with pytest.raises((ConnectionError, OSError, Exception), match=r"(?i)closed|reset|pipe"):
        tracking.wait(10)
    assert tracking.read(("EXISTS", "queue:a")) == [0]
    redis.lpush("queue:a", "job")
    assert tracking.wait(10)


def test_closing_it_wakes_a_thread_that_waits(tracking):
    tracking.read(("EXISTS", "queue:a"))
    ended = threading.Event()

    def wait():
        try:
            tracking.wait(60)
        except Exception:  # noqa: BLE001 - whatever it raises, the wait is over
            pass
        finally:
            ended.set()

    threading.Thread(target=wait, daemon=True).start()
    tracking.close()

    assert ended.wait(10)


def test_waiting_takes_a_look_several_times_a_second(redis, server):
    with without_command(redis, server, "client|tracking") as url:
        tracking = TrackingConnection(connector(url))
        tracking.read(("EXISTS", "queue:a"))

        assert not tracking.wait(60)
        assert not tracking.tracks
        tracking.close()


def test_it_is_asked_for_again_and_the_wait_ends_with_the_news_as_before(redis, server, caplog):
    caplog.set_level(logging.INFO, "kiqbridge.store.tracking")
    with without_command(redis, server, "client|tracking") as url:
        tracking = TrackingConnection(connector(url), retry_s=0.05)

        def looks_without():
            tracking.read(("EXISTS", "queue:a"))
            tracking.wait(0.01)
            return not tracking.tracks

        assert looks_without()
        wait_until(lambda: looks_without() and asked(redis) >= 3, what="asked again")
        redis.execute_command("ACL", "SETUSER", "poor", "+client|tracking")

        wait_until(lambda: tracking.read(("EXISTS", "queue:a")) and tracking.tracks)
        redis.lpush("queue:a", "job")
        assert tracking.wait(10)
        tracking.close()
    # Once each, however often it was asked for.
    assert [message.split(" (")[0] for message in caplog.messages] == [
        "this Redis refuses CLIENT TRACKING",
        "this Redis allows CLIENT TRACKING again for queues",
    ]


def test_it_is_not_asked_for_with_every_look(redis, server):
    with without_command(redis, server, "client|tracking") as url:
        tracking = TrackingConnection(connector(url))
        for _ in range(20):
            tracking.read(("EXISTS", "queue:a"))

        assert asked(redis) == 1
        tracking.close()


def test_a_new_connection_asks_at_once(redis, server):
    with without_command(redis, server, "client|tracking") as url:
        tracking = TrackingConnection(connector(url))
        tracking.read(("EXISTS", "queue:a"))
        assert not tracking.tracks
        redis.execute_command("ACL", "SETUSER", "poor", "+client|tracking")
        tracking.close()

        tracking.read(("EXISTS", "queue:a"))

        assert tracking.tracks
        tracking.close()


def asked(redis):
    """How often CLIENT TRACKING was refused since the server's statistics began."""
    return redis.info("commandstats").get("cmdstat_client|tracking", {"rejected_calls": 0})[
        "rejected_calls"
    ]
