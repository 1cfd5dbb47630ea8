"""The lease of a process: taken out, renewed, doubted, lost and given up."""

import itertools
import re
import threading
from contextlib import contextmanager

import pytest
from support.engine import EngineProcess, take_away
from support.waiting import at_once, wait_until

from kiqbridge.engine.inflight import lease as lease_module
from kiqbridge.engine.inflight.lease import LeaseKeeper, LeaseTimes, renew
from kiqbridge.errors import RedisUnavailable
from kiqbridge.runtime.clock import lease_now


def number_of(redis, process):
    """Of the last sign of life."""
    return int(redis.hget("kb:alive", process.incarnation).split()[0])


def test_the_bound_of_thirty_seconds_gives_the_durations_of_the_design():
    times = LeaseTimes(30)

    assert (times.silent_after, times.watch_for) == (10, 8)
    assert (times.beat_every, times.watch_every, times.slot_ms) == (4.5, 3, 6000)

    late = LeaseTimes(300)  # however late jobs are recovered
    assert (late.beat_every, late.watch_every) == (4.5, 3)


@pytest.mark.parametrize("bound_s", [1, 2, 10, 30, 60, 300])
def test_a_third_process_recovers_within_the_bound_also_if_both_watchers_die_at_once(bound_s):
    times = LeaseTimes(bound_s)

    vacant = times.slot_ms / 1000
    first_look = vacant + times.beat_every
    silent_for_long_enough = first_look + times.silent_after + times.watch_for
    assert silent_for_long_enough + times.look_again_after <= bound_s


def test_starting_registers_a_name_with_the_layouts_version(redis, process):
    assert redis.smembers("kb:inflight") == {process.incarnation.encode()}
    assert process.incarnation == "v2:host:1:aaa:1"
    number, at, silent_after_ms = redis.hget("kb:alive", process.incarnation).split()
    assert (number, silent_after_ms) == (b"1", b"10000")
    assert 0 <= redis.time()[0] + 1 - float(at) < 60
    assert redis.ttl("kb:alive") == -1  # nothing that Redis may evict to make room
    assert not process.keeper.current.in_doubt()


def test_without_redis_starting_raises_and_can_be_repeated(redis, redis_url):
    process = EngineProcess(redis_url)
    for connection in process.connections:
        connection.down = True
    with pytest.raises(RedisUnavailable):
        process.keeper.start()
    for connection in process.connections:
        connection.down = False

    with process:
        assert redis.sismember("kb:inflight", process.incarnation)


def test_a_lease_in_doubt_is_confirmed_by_redis(redis, process):
    lease = process.keeper.current
    redis.hdel("kb:alive", lease.incarnation)
    lease.valid_until = 0.0
    assert lease.in_doubt()

    assert process.keeper.confirm(lease)

    assert not lease.in_doubt()
    assert redis.hexists("kb:alive", lease.incarnation)


def test_a_lost_lease_is_in_doubt_however_long_it_was_sure(process):
    lease = process.keeper.current
    lease.valid_until = float("inf")
    assert not lease.in_doubt()

    lease.lost = True

    assert lease.in_doubt()


def test_it_is_sure_from_when_redis_was_asked_and_not_from_its_answer(process, monkeypatch):
    lease = process.keeper.current
    lease.valid_until = 0.0
    clock = itertools.count(1_000, 5)  # the answer takes 5 s
    monkeypatch.setattr(lease_module, "lease_now", lambda: float(next(clock)))

    assert process.keeper.confirm(lease)

    asked_at = 1_005  # before that was a look at the clock
    assert lease.valid_until == asked_at + LeaseTimes(30).silent_after


def test_a_lease_not_in_doubt_asks_nobody(process):
    before = [connection.scripts for connection in process.connections]

    assert process.keeper.confirm(process.keeper.current)
    assert [connection.scripts for connection in process.connections] == before


def test_a_lease_that_was_taken_away_is_never_added_again(redis, process):
    lease = process.keeper.current
    take_away(process)
    lease.valid_until = 0.0

    assert not process.keeper.confirm(lease)

    assert lease.lost
    assert not redis.keys("kb:*")


@contextmanager
def confirming(redis_url):
    """A process without Redis, a thread that waits for leave to begin under its lease, and what it was answered."""
    with EngineProcess(redis_url, recover_after_s=1) as process:
        lease = process.keeper.current
        for connection in process.connections:
            connection.down = True
        wait_until(lease.in_doubt, what="the lease to run out")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(process.keeper.confirm(lease)))
        thread.start()
        yield process, thread, answers


def test_confirming_waits_while_redis_is_away(redis_url):
    with confirming(redis_url) as (process, thread, answers):
        asked_at = lease_now()
        wait_until(lambda: lease_now() > asked_at + 0.1)
        assert not answers
        for connection in process.connections:
            connection.down = False

        thread.join(10)

    assert answers == [True]


@pytest.mark.slow
def test_stopping_ends_the_wait_without_leave_to_begin(redis_url):
    with confirming(redis_url) as (process, thread, answers):
        with pytest.raises(RedisUnavailable):
            process.keeper.stop()
        thread.join(10)

    assert answers == [False]


def test_renouncing_registers_a_new_incarnation_and_leaves_the_old_for_the_reaper(redis, process):
    old = process.keeper.current

    process.keeper.renounce(old, "its claims are unknown")

    new = process.keeper.current
    assert old.lost
    assert not new.lost
    assert new.incarnation == "v2:host:1:aaa:2"
    assert redis.smembers("kb:inflight") == {old.incarnation.encode(), new.incarnation.encode()}


def test_renouncing_the_same_lease_from_many_threads_registers_once(process):
    old = process.keeper.current
    at_once(*[lambda: process.keeper.renounce(old, "fenced")] * 8)

    assert process.incarnation == "v2:host:1:aaa:2"


def test_the_beat_keeps_the_process_alive(redis, redis_url):
    with EngineProcess(redis_url, recover_after_s=1) as process:
        lease = process.keeper.current
        first = lease.valid_until

        wait_until(lambda: number_of(redis, process) >= 3, what="two beats")

        assert lease.valid_until > first
        assert process.keeper.current is lease


def test_the_beat_notices_that_the_lease_was_taken_away(redis, redis_url):
    with EngineProcess(redis_url, recover_after_s=1) as process:
        old = process.keeper.current
        take_away(process)

        wait_until(lambda: process.keeper.current is not old, what="a new lease")

        assert old.lost
        assert redis.sismember("kb:inflight", process.incarnation)
        assert not redis.sismember("kb:inflight", old.incarnation)


def test_a_renounced_incarnation_is_reaped_by_its_own_process(redis, redis_url):
    with EngineProcess(redis_url, recover_after_s=1) as process:
        redis.lpush("queue:default", "job")
        process.claimer().claim(["default"], 1)
        process.keeper.renounce(process.keeper.current, "its claims are unknown")

        wait_until(lambda: redis.llen("queue:default"), what="the job in its queue")

        assert redis.smembers("kb:inflight") == {process.incarnation.encode()}


@pytest.mark.parametrize("has_thread_ended", [False, True])
def test_stopping_gives_everything_back_and_ends_the_registration(redis, process, has_thread_ended):
    redis.lpush("queue:default", "one", "two", "three")
    process.claimer().claim(["default"], 2)
    if has_thread_ended:  # as between two steps of `stop`
        process.keeper.thread.stop()

    assert process.keeper.stop() == 2

    assert redis.lrange("queue:default", 0, -1) == [b"three", b"two", b"one"]
    assert not redis.keys("kb:*")
    assert process.keeper.current.lost


def test_stopping_what_never_started_does_nothing(redis, redis_url):
    assert EngineProcess(redis_url).keeper.stop() == 0
    assert not redis.keys("*")


def test_each_beat_reports_under_which_name_the_process_runs_also_while_redis_is_away(
    redis, redis_url
):
    process = EngineProcess(redis_url)
    heard = []
    keeper = LeaseKeeper(
        identity="host:1:aaa",
        keys=process.keys,
        connect=process.connect,
        times=LeaseTimes(1),
        on_registered=heard.append,
    )
    keeper.start()
    assert heard == ["v2:host:1:aaa:1"]
    wait_until(lambda: len(heard) >= 3, what="two beats")
    for connection in process.connections:
        connection.down = True
    so_far = len(heard)
    wait_until(lambda: len(heard) >= so_far + 3, what="beats without Redis")
    for connection in process.connections:
        connection.down = False
    keeper.stop()

    assert set(heard) == {"v2:host:1:aaa:1"}


class TestSpeakingForAnother:
    """What a supervisor does for a child whose threads cannot run."""

    def test_who_only_fell_silent_is_alive_again(self, redis, process):
        redis.delete("kb:alive")

        assert renew(process.pool.connection(), process.keys, process.incarnation, 5000)

        assert redis.hexists("kb:alive", process.incarnation)

    def test_a_lease_that_was_taken_away_stays_so(self, redis, process):
        take_away(process)

        assert not renew(process.pool.connection(), process.keys, process.incarnation, 5000)

        assert not redis.keys("kb:*")

    def test_the_other_itself_is_no_surer_of_its_lease(self, process):
        lease = process.keeper.current
        lease.valid_until = 0.0

        renew(process.pool.connection(), process.keys, process.incarnation, 5000)

        assert lease.in_doubt()


def test_signs_of_life_under_a_key_of_a_foreign_type_end_no_lease_and_nobody_is_reaped(
    redis, redis_url, caplog
):
    with (
        EngineProcess(redis_url, recover_after_s=1) as process,
        EngineProcess(redis_url, identity="host:2:bbb"),
    ):
        lease = process.keeper.current
        redis.delete("kb:alive")
        redis.set("kb:alive", "somebody's text")
        first = lease.valid_until
        wait_until(lambda: lease.valid_until > first + 0.5, what="some beats")

        assert renew(process.pool.connection(), process.keys, process.incarnation, 5000)
        redis.delete("kb:alive")
        wait_until(lambda: redis.hexists("kb:alive", process.incarnation), what="a beat")
        assert process.keeper.current is lease
    told = [
        message
        for message in caplog.messages
        if "giving back the jobs of processes that died fails: " in message
    ]
    assert len(told) == 1
    assert "WRONGTYPE" in told[0]


def test_a_beat_that_is_refused_before_the_look_is_a_look_missing(redis, redis_url):
    with EngineProcess(redis_url, recover_after_s=300) as process:
        keeper = process.keeper
        redis.sadd("kb:inflight", "v2:host:9:zzz:1")
        keeper._beat()
        assert keeper._reaper.seen

        redis.rename("kb:inflight", "elsewhere")
        redis.set("kb:inflight", "no set")
        keeper._beat_safely()
        redis.rename("elsewhere", "kb:inflight")

        assert not keeper._reaper.seen


def test_its_repr_tells_operators_how_it_stands(process):
    lease = process.keeper.current
    assert re.fullmatch(r"Lease\(v2:host:1:aaa:1, -?\d+\.\d s left\)", repr(lease))
    lease.lost = True
    assert repr(lease) == "Lease(v2:host:1:aaa:1, lost)"
