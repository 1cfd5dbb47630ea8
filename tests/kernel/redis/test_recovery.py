"""When the reaper acts: only after it has itself seen an owner silent for long enough."""

import logging

import pytest
from support.engine import EngineProcess, Watch, register

from kiqbridge.engine.inflight.incarnations import SignOfLife
from kiqbridge.engine.inflight.lease import renew
from kiqbridge.engine.inflight.reaping import UNKNOWN_LAYOUT
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of


@pytest.fixture
def dead(redis, redis_url):
    """A process that holds a job and gave one sign of life."""
    process = register(EngineProcess(redis_url))
    redis.lpush("queue:default", "job")
    process.claimer().claim(["default"], 1)
    return process


@pytest.fixture
def watch(dead):
    return Watch(dead)


def beat(process):
    assert renew(process.connect(), process.keys, process.incarnation, 10_000)


def is_back(redis):
    return redis.lrange("queue:default", 0, -1) == [b"job"]


def test_an_owner_whose_sign_stays_the_same_for_eighteen_seconds_is_reaped(
    redis, dead, watch, caplog
):
    incarnation = dead.incarnation

    assert watch.look_after(0) == 0
    assert watch.look_for(9.9) == 0
    assert watch.look_for(0.1) == 1  # longer than it may be silent: looks get frequent
    assert watch.look_for(7.9) == 1
    assert not is_back(redis)
    assert watch.look_for(0.1) == 0

    assert is_back(redis)
    assert not redis.exists("kb:inflight", "kb:reaping", "kb:alive", dead.keys.claims(incarnation))
    assert caplog.messages == [
        f"process {incarnation} died: 1 of its jobs went back to their queues"
    ]
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(("silent_ms", "watched_s"), [(None, 17.9), (100_000, 107.9)])
def test_it_is_watched_for_as_long_as_its_sign_says_or_as_usual_without_one(
    redis, dead, watch, silent_ms, watched_s
):
    if silent_ms is None:
        redis.delete("kb:alive")
    else:
        assert renew(dead.connect(), dead.keys, dead.incarnation, silent_ms)

    watch.look_after(0)
    assert watch.look_for(watched_s) == 1
    assert not is_back(redis)
    watch.look_for(0.1)
    assert is_back(redis)


def test_one_that_promised_an_earlier_recovery_is_watched_for_less(redis, dead, watch):
    assert renew(dead.connect(), dead.keys, dead.incarnation, 1000)

    watch.look_after(0)
    assert watch.reaper.strictest_s == 1
    assert watch.look_after(0.7) == 0
    assert watch.look_after(0.7) == 1
    assert watch.look_after(0.3) == 1
    assert not is_back(redis)
    watch.look_after(0.1)
    assert is_back(redis)


def test_its_watch_begins_anew_when_looks_are_further_apart_than_it_lasts(redis, dead, watch):
    assert renew(dead.connect(), dead.keys, dead.incarnation, 1000)

    watch.look_after(0)
    assert watch.look_after(0.9) == 0  # 0.8 s at most
    assert watch.look_after(0.7) == 0
    assert not is_back(redis)


def test_a_sign_that_cannot_be_read_is_one_all_the_same(redis, dead, watch):
    redis.hset("kb:alive", dead.incarnation, "nonsense")

    watch.look_after(0)
    watch.look_for(17)
    redis.hset("kb:alive", dead.incarnation, "other nonsense")
    watch.look_for(17)
    assert not is_back(redis)
    watch.look_for(3)

    assert is_back(redis)


def test_one_look_is_never_enough_however_late_it_comes(redis, watch):
    assert watch.look_after(100_000) == 0
    assert not is_back(redis)


def test_a_look_that_waits_long_for_its_answer_does_not_count_that_time(redis, dead, watch):
    def wait():
        watch.now += 7

    watch.look_after(0)
    watch.look_for(16)
    answers = watch.connection.run
    watch.connection.run = lambda *commands: (wait(), answers(*commands))[1]
    watch.look_after(1)

    assert not is_back(redis)


def test_whose_signs_are_evicted_time_and_again_lives_as_long_as_it_gives_new_ones(
    redis, dead, watch
):
    for _ in range(20):
        beat(dead)
        watch.look_after(1.5)
        redis.delete("kb:alive")
        watch.look_after(1.5)

    assert not is_back(redis)


def test_an_error_while_reaping_makes_the_watch_start_over_and_loses_nothing(redis, watch):
    watch.look_after(0)
    watch.look_for(17)
    watch.connection.lose = {1}
    with pytest.raises(RedisUnavailable):
        watch.look_after(1)

    watch.look_after(0.5)
    watch.look_for(3)  # the mark was made, the reply was lost
    assert is_back(redis)
    assert not redis.exists("kb:inflight", "kb:reaping")


def shows_up(_redis, dead, _watch):
    beat(dead)


def looks_too_late(_redis, _dead, watch):
    watch.now += 7.1  # who knows whether anybody could give a sign meanwhile


def is_cut_off(_redis, _dead, watch):
    watch.connection.down = True
    with pytest.raises(RedisUnavailable):
        watch.look_after(0.5)
    watch.connection.down = False


def is_refused(redis, _dead, watch):
    redis.rename("kb:alive", "elsewhere")
    redis.set("kb:alive", "of a foreign type")
    with pytest.raises(RedisRefused):
        watch.look_after(0.5)
    redis.rename("elsewhere", "kb:alive")


def forgets(_redis, _dead, watch):
    watch.reaper.forget_suspects()


@pytest.mark.parametrize("disturb", [shows_up, looks_too_late, is_cut_off, is_refused, forgets])
def test_what_leaves_a_gap_makes_the_watch_start_over(redis, dead, watch, disturb):
    watch.look_after(0)
    watch.look_for(17)
    disturb(redis, dead, watch)

    assert watch.look_after(1) == 0
    watch.look_for(17.9)
    assert not is_back(redis)
    watch.look_for(0.1)
    assert is_back(redis)


def test_the_living_are_never_reaped(redis, dead, watch):
    for _ in range(20):
        beat(dead)
        assert watch.look_after(3) == 0

    assert not is_back(redis)


def test_one_that_comes_back_right_before_the_reap_is_left_alone(redis, dead, watch):
    watch.look_after(0)
    watch.look_for(17)
    watch.connection.before_script = lambda: beat(dead)

    assert watch.look_after(1) == 0
    assert not is_back(redis)
    assert redis.sismember("kb:inflight", dead.incarnation)


def test_ones_own_incarnation_is_never_suspected(redis, dead, watch):
    watch.look_after(0, own=dead.incarnation)
    assert watch.look_for(60, own=dead.incarnation) == 0

    assert not is_back(redis)


def test_without_registrations_there_is_nothing_to_do(redis, watch):
    redis.delete("kb:inflight")

    assert watch.look_after(0) == 0
    assert watch.look_for(20) == 0


def test_several_dead_ones_are_reaped_in_one_look(redis, redis_url, dead, watch):
    other = register(EngineProcess(redis_url, identity="host:2:bbb"))
    redis.lpush("queue:mail", "mail")
    other.claimer().claim(["mail"], 1)

    watch.look_after(0)
    assert watch.look_for(17) == 2
    assert watch.look_after(1) == 0

    assert is_back(redis)
    assert redis.lrange("queue:mail", 0, -1) == [b"mail"]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        (b"17 1732250000.250000 10000", SignOfLife(17, 1732250000.25, 10.0)),
        (None, None),
        (b"", None),
        (b"17 now 10000", None),
        (b"17 1732250000.25", None),
        (b"\xff", None),
    ],
)
def test_a_sign_of_life_is_a_number_a_time_and_a_promise(text, sign):
    assert SignOfLife.parse(text) == sign


STRANGER = "v9:host:7:abc:1"
SIGN = "7 1732250000.5 10000"


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
