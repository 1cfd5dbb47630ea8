"""The connection on which an idle thread waits."""

import threading

import pytest
import redis as redis_py
from support.waiting import wait_until

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.round_trip import pack
from kiqbridge.store.wake_connection import NIL, News, WakeConnection


@pytest.fixture
def waiting(redis_url):
    pool = RedisPool(redis_url)
    waiting = WakeConnection(lambda: pool.raw_connection(protocol=3))
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


def test_a_wait_is_interrupted_from_another_thread(waiting):
    waiting.ask(("PING",))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(waiting.receive(60)))
    thread.start()

    waiting.interrupt()

    thread.join(20)
    assert answers == [None]
    assert waiting.take_interruption()
    assert not waiting.take_interruption()


def test_an_interruption_before_the_wait_ends_it_as_well(waiting):
    waiting.interrupt()

    assert waiting.receive(60) is None


def test_a_pause_is_ended_by_an_interruption(waiting):
    thread = threading.Thread(target=waiting.pause, args=(60,))
    thread.start()
    waiting.interrupt()

    thread.join(20)
    assert not thread.is_alive()


def test_a_cut_connection_raises_and_a_new_one_is_opened(redis, waiting):
    waiting.ask(("PING",))
    redis.client_kill_filter(_type="normal", skipme=True)

    with pytest.raises((redis_py.exceptions.RedisError, OSError)):
        waiting.receive(10)
    waiting.close()
    assert waiting.ask_tracked(("EXISTS", "queue:a")) == [0]
    redis.lpush("queue:a", "job")
    wait_until(lambda: waiting.receive(1) is not None)


def test_much_is_sent_in_parts(waiting):
    value = b"x" * 8_000_000

    assert waiting.ask(("SET", "long", value), ("STRLEN", "long"))[1] == len(value)
