"""Leases of another layout version: during a rolling upgrade both stand side by side."""

import pytest
from support.engine import EngineProcess

from kiqbridge.keys import LAYOUT, Keys, layout_of
from kiqbridge.recovery import UNKNOWN_LAYOUT, Reaper

STRANGER = "v9:host:7:abc:1"


class Watch:
    """A reaper with a clock that the test moves."""

    def __init__(self, process):
        self.now = 1000.0
        self.reaper = Reaper(process.connect(), process.keys, clock=lambda: self.now)

    def look_after(self, seconds):
        self.now += seconds
        return self.reaper.look()


@pytest.fixture
def dead(redis, redis_url):
    """A process that holds a job and fell silent, as far as Redis can tell."""
    with EngineProcess(redis_url) as process:
        redis.lpush("queue:default", "job")
        process.claimer().claim(["default"], 1)
        redis.delete(process.keys.alive(process.incarnation))
        yield process


def test_the_layout_stands_in_the_name(dead):
    assert layout_of(dead.incarnation) == LAYOUT
    assert layout_of(STRANGER) == "v9"
    assert layout_of("") == ""


def test_a_silent_one_of_an_unknown_layout_is_left_alone_and_told_once(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    redis.hset(Keys().claims(STRANGER), "t1", "1 default")
    redis.rpush(Keys().inflight_list(STRANGER, "t1", 1), "theirs")
    watch = Watch(dead)

    for seconds in (0, 4, 4.1, 100):
        watch.look_after(seconds)

    assert redis.lrange("queue:default", 0, -1) == [b"job"]
    assert redis.smembers("kb:inflight") == {STRANGER.encode()}
    assert redis.lrange(Keys().inflight_list(STRANGER, "t1", 1), 0, -1) == [b"theirs"]
    [told] = [message for message in caplog.messages if STRANGER in message]
    assert told == (
        f"process {STRANGER} is silent, and its layout v9 is unknown to this version, which knows {LAYOUT}: "
        "the jobs that it holds stay there until a worker of a version that knows it gives them back; "
        "start one"
    )


def test_it_is_no_suspicion_that_makes_looks_frequent(redis, dead):
    redis.srem("kb:inflight", dead.incarnation)
    redis.sadd("kb:inflight", STRANGER)

    assert Watch(dead).look_after(0) == 0


def test_one_that_lives_is_not_mentioned(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    redis.set(Keys().alive(STRANGER), 1)

    Watch(dead).look_after(0)

    assert caplog.messages == []


def test_it_is_told_again_when_it_came_back_and_fell_silent_again(redis, dead, caplog):
    redis.sadd("kb:inflight", STRANGER)
    watch = Watch(dead)
    watch.look_after(0)
    redis.set(Keys().alive(STRANGER), 1)
    watch.look_after(1)
    redis.delete(Keys().alive(STRANGER))
    watch.look_after(1)

    assert sum(STRANGER in message for message in caplog.messages) == 2


def test_not_even_on_demand(redis, dead):
    redis.sadd("kb:inflight", STRANGER)

    assert Watch(dead).reaper.reap(STRANGER) == UNKNOWN_LAYOUT
    assert redis.sismember("kb:inflight", STRANGER)
