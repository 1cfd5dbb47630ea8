"""When the reaper acts: only after it has itself seen an owner silent for long enough."""

import logging

import pytest
from support.engine import EngineProcess

from kiqbridge.errors import RedisUnavailable
from kiqbridge.recovery import Reaper


class Watch:
    """A reaper with a clock that the test moves."""

    def __init__(self, process):
        self.connection = process.connect()
        self.now = 1000.0
        self.reaper = Reaper(self.connection, process.keys, clock=lambda: self.now)

    def look_after(self, seconds, own=""):
        self.now += seconds
        return self.reaper.look(own)


@pytest.fixture
def dead(redis, redis_url):
    """A process that holds a job and fell silent, as far as Redis can tell."""
    with EngineProcess(redis_url) as process:
        redis.lpush("queue:default", "job")
        process.claimer().claim(["default"], 1)
        redis.delete(process.keys.alive(process.incarnation))
        yield process


@pytest.fixture
def watch(dead):
    return Watch(dead)


def is_back(redis):
    return redis.lrange("queue:default", 0, -1) == [b"job"]


def test_an_owner_seen_silent_for_eight_seconds_is_reaped(redis, dead, watch, caplog):
    incarnation = dead.incarnation

    assert watch.look_after(0) == 1
    assert watch.look_after(4) == 1
    assert watch.look_after(3.9) == 1
    assert not is_back(redis)
    assert watch.look_after(0.1) == 0

    assert is_back(redis)
    assert not redis.sismember("kb:inflight", incarnation)
    assert caplog.messages == [
        f"process {incarnation} died: 1 of its jobs went back to their queues"
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_one_look_is_never_enough_however_late_it_comes(redis, watch):
    assert watch.look_after(100_000) == 1
    assert not is_back(redis)


def test_an_owner_that_shows_up_in_between_is_watched_anew(redis, dead, watch):
    alive = dead.keys.alive(dead.incarnation)
    watch.look_after(0)
    redis.set(alive, 1)
    assert watch.look_after(7) == 0
    redis.delete(alive)

    assert watch.look_after(1) == 1
    assert watch.look_after(7.9) == 1
    assert not is_back(redis)
    watch.look_after(0.1)
    assert is_back(redis)


def test_an_error_of_ones_own_makes_the_watch_start_over(redis, watch):
    watch.look_after(0)
    watch.look_after(7)
    watch.connection.down = True
    with pytest.raises(RedisUnavailable):
        watch.look_after(0.5)
    watch.connection.down = False

    assert watch.look_after(40) == 1
    assert watch.look_after(7.9) == 1
    assert not is_back(redis)
    watch.look_after(0.1)
    assert is_back(redis)


def test_an_error_while_reaping_makes_the_watch_start_over(redis, watch):
    watch.look_after(0)
    watch.connection.lose = {1}
    with pytest.raises(RedisUnavailable):
        watch.look_after(8)

    assert is_back(redis)  # the reply was lost, the script was not
    assert watch.look_after(8) == 0


def test_forgetting_suspects_makes_the_watch_start_over(redis, watch):
    watch.look_after(0)
    watch.reaper.forget_suspects()

    assert watch.look_after(8) == 1
    assert not is_back(redis)


def test_the_living_are_never_reaped(redis, dead, watch):
    redis.set(dead.keys.alive(dead.incarnation), 1)

    for _ in range(20):
        assert watch.look_after(10) == 0

    assert not is_back(redis)


def test_one_that_comes_back_right_before_the_reap_is_left_alone(redis, dead, watch):
    watch.look_after(0)
    watch.connection.before_script = lambda: redis.set(dead.keys.alive(dead.incarnation), 1)

    assert watch.look_after(8) == 0
    assert not is_back(redis)
    assert redis.sismember("kb:inflight", dead.incarnation)


def test_ones_own_incarnation_is_never_suspected(redis, dead, watch):
    for _ in range(5):
        assert watch.look_after(10, own=dead.incarnation) == 0

    assert not is_back(redis)


def test_without_registrations_there_is_nothing_to_do(redis, watch):
    redis.delete("kb:inflight")

    assert watch.look_after(10) == 0


def test_several_dead_ones_are_reaped_in_one_look(redis, redis_url, dead, watch):
    with EngineProcess(redis_url, identity="host:2:bbb") as other:
        redis.lpush("queue:mail", "mail")
        other.claimer().claim(["mail"], 1)
        redis.delete(other.keys.alive(other.incarnation))

        assert watch.look_after(0) == 2
        assert watch.look_after(8) == 0

    assert is_back(redis)
    assert redis.lrange("queue:mail", 0, -1) == [b"mail"]
