"""The connection on which an idle thread waits."""

import logging
import threading

import pytest
import redis as redis_py
from support.proxy import Answer, InterceptingRedis
from support.servers import without_command
from support.waiting import wait_until

from kiqbridge.errors import RedisMisconfigured
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import first_score
from kiqbridge.store.round_trip import pack
from kiqbridge.store.tracking_connection import TrackingConnection
from kiqbridge.store.wake_connection import NIL, SENT, News, WakeConnection


def connector(url):
    pool = RedisPool(url)
    return pool.raw_connection


@pytest.fixture
def waiting(redis_url):
    waiting = WakeConnection(connector(redis_url))
    yield waiting
    waiting.close()


def test_replies_come_in_order_and_errors_among_them(waiting):
    first, second, third = waiting.ask(("SET", "a", 1), ("LPUSH", "a", 1), ("GET", "a"))

    assert (first, third) == ("OK", b"1") or (first, third) == (b"OK", b"1")
    assert isinstance(second, redis_py.exceptions.ResponseError)


def test_a_changed_key_that_was_read_is_reported_once(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a", "queue:b"))
    redis.lpush("queue:b", "job")

    news = waiting.receive(10)

    assert isinstance(news, News)
    assert (news.keys, news.all) == ({b"queue:b"}, False)
    redis.lpush("queue:b", "another")
    assert waiting.receive(0.05) is None


def test_what_was_read_without_tracking_is_not_reported(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    waiting.ask(("EXISTS", "queue:b"))
    redis.lpush("queue:b", "job")

    assert waiting.receive(0.05) is None


def test_a_server_that_was_emptied_is_reported(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    redis.flushall()

    assert waiting.receive(10).all


def test_news_that_come_with_replies_are_kept(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")
    waiting.ask(("PING",))

    assert waiting.receive(0).keys == {b"queue:a"}


def test_what_is_due_at_news_is_sent_before_they_are_read(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")

    assert waiting.receive(10, lambda: pack([("LLEN", "queue:a")])) is SENT

    assert waiting.replies(1) == [1]
    assert [news.keys for news in waiting.news] == [{b"queue:a"}]


def test_where_nothing_is_due_the_news_are_read(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")

    assert waiting.receive(10, lambda: b"").keys == {b"queue:a"}


def test_what_is_awaited_comes_beside_the_news(redis, waiting):
    waiting.ask_tracked(("EXISTS", "queue:a"))
    waiting.send(pack([("BLPOP", "wake", 10)]))
    redis.lpush("queue:a", "job")
    assert isinstance(waiting.receive(10), News)
    redis.rpush("wake", "token")

    assert waiting.receive(10) == [b"wake", b"token"]


def test_an_empty_reply_is_told_from_none(waiting):
    waiting.send(pack([("GET", "nothing")]))

    assert waiting.receive(10) is NIL
    assert waiting.receive(0) is None


def test_an_interruption_before_the_wait_ends_it_as_well(waiting):
    waiting.interrupt()

    assert waiting.receive(60) is None


def test_a_pause_is_ended_by_an_interruption(waiting):
    thread = threading.Thread(target=waiting.pause, args=(60,))
    thread.start()
    waiting.interrupt()

    thread.join(20)
    assert not thread.is_alive()


def test_much_is_sent_in_parts(waiting):
    value = b"x" * 8_000_000

    assert waiting.ask(("SET", "long", value), ("STRLEN", "long"))[1] == len(value)


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


def test_a_change_before_the_wait_is_not_missed(redis, tracking):
    tracking.read(("EXISTS", "queue:a"))
    redis.lpush("queue:a", "job")
    tracking.read(("PING",))  # the message is already on the connection

    tracking.read(("EXISTS", "queue:a"))
    assert not tracking.wait(0.01)  # read anew, so nothing is due
    redis.lpush("queue:a", "job")
    assert tracking.wait(10)


def test_it_is_asked_for_again_and_the_wait_ends_with_the_news_as_before(redis, server, caplog):
    caplog.set_level(logging.INFO, "kiqbridge.store.wake_connection")
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


def without_hello(command):
    """What a proxy that knows RESP 2 alone answers."""
    quoted = b" ".join(b"'%b'" % each for each in command[1:])
    reply = b"-ERR unknown command 'HELLO', with args beginning with: %b\r\n" % quoted
    return Answer(reply) if command[0].upper() == b"HELLO" else None


def test_without_resp_3_it_looks_again_and_again_until_the_server_allows_it(redis, server, caplog):
    """As before a proxy that knows RESP 2 alone, or where HELLO is renamed."""
    caplog.set_level(logging.INFO, "kiqbridge.store.wake_connection")
    redis.zadd("schedule", {"job": 7.5})
    with InterceptingRedis(server.port) as proxy:
        proxy.decide = without_hello
        tracking = TrackingConnection(connector(proxy.url), retry_s=0.05)

        [head] = tracking.read(("ZRANGE", "schedule", 0, 0, "WITHSCORES"))
        assert first_score(head) == 7.5
        assert not tracking.wait(0.01)
        assert not tracking.tracks
        proxy.decide = lambda _command: None

        wait_until(lambda: tracking.read(("EXISTS", "schedule")) and tracking.tracks)
        [head] = tracking.read(("ZRANGE", "schedule", 0, 0, "WITHSCORES"))
        assert first_score(head) == 7.5
        tracking.close()
    assert [message.split(": queues")[0] for message in caplog.messages] == [
        "this Redis refuses HELLO 3 (ERR unknown command 'HELLO')",
        "this Redis allows CLIENT TRACKING again for queues",
    ]


def test_a_wrong_password_is_no_server_without_resp_3(redis, server, caplog):
    redis.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">pw", "~*", "&*", "+@all")
    tracking = TrackingConnection(connector(server.url.replace("redis://", "redis://poor:s3cret@")))
    try:
        with pytest.raises(RedisMisconfigured, match="the user or the password is wrong") as wrong:
            tracking.read(("EXISTS", "queue:a"))
    finally:
        redis.execute_command("ACL", "DELUSER", "poor")

    assert "s3cret" not in str(wrong.value)
    assert "HELLO" not in caplog.text


def test_no_line_quotes_the_password_that_a_server_without_hello_sends_back(redis, server, caplog):
    caplog.set_level(logging.DEBUG)
    with (
        without_command(redis, server, "scan"),
        InterceptingRedis(server.port) as proxy,
    ):
        proxy.decide = without_hello
        redis.execute_command("ACL", "SETUSER", "poor", ">s3cret")
        tracking = TrackingConnection(
            connector(proxy.url.replace("redis://", "redis://poor:s3cret@"))
        )
        assert tracking.read(("EXISTS", "queue:a")) == [0]
        tracking.close()

    assert "refuses HELLO 3 (ERR unknown command 'HELLO')" in caplog.text
    assert "s3cret" not in caplog.text


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
