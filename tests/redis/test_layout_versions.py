"""Leases of another layout version: during a rolling upgrade both stand side by side."""

import pytest
from support.engine import EngineProcess, Watch, register

from kiqbridge.inflight.reaping import UNKNOWN_LAYOUT
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of

STRANGER = "v9:host:7:abc:1"
SIGN = "7 1732250000.5 10000"


@pytest.fixture
def dead(redis, redis_url):
    """A process that holds a job and fell silent."""
    process = register(EngineProcess(redis_url))
    redis.lpush("queue:default", "job")
    process.claimer().claim(["default"], 1)
    return process


def test_the_layout_stands_in_the_name(dead):
    assert layout_of(dead.incarnation) == LAYOUT
    assert layout_of(STRANGER) == "v9"
    assert layout_of("") == ""


def test_a_silent_one_of_an_unknown_layout_is_left_alone_and_told_once(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    redis.hset(Keys().claims(STRANGER), "t1", "1 default")
    redis.rpush(Keys().inflight_list(STRANGER, "t1", 1), "theirs")
    watch = Watch(dead)

    watch.look_after(0)
    watch.look_for(100)

    assert redis.lrange("queue:default", 0, -1) == [b"job"]
    assert redis.smembers("kb:inflight") == {STRANGER.encode()}
    assert redis.lrange(Keys().inflight_list(STRANGER, "t1", 1), 0, -1) == [b"theirs"]
    [told] = [message for message in caplog.messages if STRANGER in message]
    assert told == (
        f"process {STRANGER} gives no sign of life that this version knows, and its layout v9 is unknown to "
        f"it, which knows {LAYOUT}: if it died, the jobs that it holds stay there until a worker of a "
        "version that knows that layout gives them back; start one"
    )


def test_it_is_no_suspicion_that_makes_looks_frequent(redis, dead):
    redis.srem("kb:inflight", dead.incarnation)
    redis.sadd("kb:inflight", STRANGER)

    watch = Watch(dead)
    watch.look_after(0)
    assert watch.look_for(20) == 0


def test_one_that_lives_is_not_mentioned(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    watch = Watch(dead)

    for number in range(10):
        redis.hset(Keys().alive, STRANGER, f"{number} 1732250000.5 10000")
        watch.look_after(3)

    assert [message for message in caplog.messages if STRANGER in message] == []


def test_it_is_told_again_when_it_came_back_and_fell_silent_again(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    watch = Watch(dead)
    watch.look_after(0)
    watch.look_for(12)
    redis.hset(Keys().alive, STRANGER, SIGN)
    watch.look_after(1)
    watch.look_for(12)

    assert sum(STRANGER in message for message in caplog.messages) == 2


def test_not_even_on_demand(redis, dead):
    redis.sadd("kb:inflight", STRANGER)

    assert Watch(dead).reaper.reap(STRANGER) == UNKNOWN_LAYOUT
    assert redis.sismember("kb:inflight", STRANGER)
