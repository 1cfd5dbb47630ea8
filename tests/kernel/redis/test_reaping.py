"""Each process, claimer and list is recovered by itself, in steps that can be repeated."""

from contextlib import suppress

import pytest
from support.engine import EngineProcess, Watch, in_flight, put_back, register

from kiqbridge.engine.inflight import reaping
from kiqbridge.engine.inflight.reaping import UNFINISHED
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.errors import RedisUnavailable
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def text_of(jid):
    return b'{"class":"A","args":[],"jid":"%s"}' % jid.encode()


def holding(redis, redis_url, *queues, number=1, jobs=1):
    """A process that died, with a claimer for each queue, each of which holds some jobs."""
    process = register(EngineProcess(redis_url, identity=f"host:{number}:aaa"))
    for queue in queues:
        redis.lpush(f"queue:{queue}", *(text_of(f"{queue}{each}") for each in range(jobs)))
        process.claimer(f"t-{queue}").claim([queue], jobs)
        assert not redis.exists(f"queue:{queue}")
    return process


def watched(process):
    """A reaper that has seen all silent long enough, but for one more look."""
    watch = Watch(process)
    watch.look_after(0)
    watch.look_for(17)
    return watch


def reap(dead, connection=None):
    """One reaper, that has seen the last sign of life of the dead."""
    beat = dead.pool.call("HGET", KEYS.alive, dead.incarnation)
    return Reaper(connection or dead.connect(), KEYS).reap(dead.incarnation, beat)


class TestOneBadThing:
    def test_a_queue_key_of_a_foreign_type_keeps_only_its_own_jobs_from_going_back(
        self, redis, redis_url, caplog
    ):
        dead = holding(redis, redis_url, "bad", "good", "better", jobs=2)
        holding(redis, redis_url, "other", number=2)
        watch = watched(dead)
        redis.set("queue:bad", "somebody's text")

        watch.look_after(1)

        assert [redis.llen(f"queue:{name}") for name in ("good", "better", "other")] == [2, 2, 1]
        assert in_flight(redis) == [text_of("bad0"), text_of("bad1")]
        assert redis.smembers("kb:reaping") == {dead.incarnation.encode()}
        assert not redis.exists("kb:inflight")
        [told] = [message for message in caplog.messages if "cannot go back" in message]
        assert told == (
            f"process {dead.incarnation} is gone, and some of its jobs cannot go back: queue:bad holds a "
            "string, not a list: rename or delete it (its jobs are in "
            f"kb:inflight:{dead.incarnation}:t-bad:1); they stay in flight, and it is tried again every 8 s"
        )

    def test_it_is_tried_again_and_told_once(self, redis, redis_url, caplog):
        watch = watched(holding(redis, redis_url, "bad"))
        redis.set("queue:bad", "somebody's text")
        watch.look_after(1)
        watch.look_for(30)
        assert in_flight(redis) == [text_of("bad0")]
        assert sum("cannot go back" in message for message in caplog.messages) == 1

        redis.delete("queue:bad")
        watch.look_for(10)

        assert redis.lrange("queue:bad", 0, -1) == [text_of("bad0")]
        assert not redis.exists("kb:reaping")
        assert in_flight(redis) == []

    def test_a_list_of_a_foreign_type_does_so_as_little(self, redis, redis_url, caplog):
        dead = holding(redis, redis_url, "good", "bad")
        bad = KEYS.inflight_list(dead.incarnation, "t-bad", 1)
        redis.delete(bad)
        redis.set(bad, "somebody's text")
        watch = watched(dead)

        watch.look_after(1)

        assert redis.lrange("queue:good", 0, -1) == [text_of("good0")]
        assert f"{bad} holds a string, not a list" in caplog.text

    def test_claims_of_a_foreign_type_hold_up_no_other_process(self, redis, redis_url, caplog):
        dead = holding(redis, redis_url, "default")
        holding(redis, redis_url, "other", number=2)
        watch = watched(dead)
        claims = KEYS.claims(dead.incarnation)
        redis.delete(claims)
        redis.set(claims, "a text")

        watch.look_after(1)

        assert redis.llen("queue:other") == 1
        assert in_flight(redis) == [text_of("default0")]
        assert "cannot go back" in caplog.text

    def test_a_claimer_whose_name_is_no_utf_8_holds_up_nobody(self, redis, redis_url, caplog):
        dead = holding(redis, redis_url, "default")
        holding(redis, redis_url, "other", number=2)
        watch = watched(dead)
        redis.hset(KEYS.claims(dead.incarnation), b"\xff", b"1 \xff")

        watch.look_after(1)

        assert redis.llen("queue:other") == redis.llen("queue:default") == 1
        assert in_flight(redis) == []
        assert "cannot go back" not in caplog.text

    def test_the_owner_that_signs_off_leaves_only_those_behind(self, redis, redis_url, caplog):
        with EngineProcess(redis_url) as process:
            for queue in ("bad", "good"):
                redis.lpush(f"queue:{queue}", text_of(queue))
                process.claimer(f"t-{queue}").claim([queue], 1)
            redis.set("queue:bad", "somebody's text")

            assert process.keeper.stop() == 1

        assert redis.lrange("queue:good", 0, -1) == [text_of("good")]
        assert in_flight(redis) == [text_of("bad")]
        assert "queue:bad holds a string" in caplog.text


class TestHalfWay:
    @pytest.mark.parametrize("by_owner", [False, True])
    @pytest.mark.parametrize("step", range(1, 12))
    def test_whoever_dies_after_any_step_another_goes_on_and_each_job_is_there_once(
        self, redis, redis_url, monkeypatch, step, by_owner
    ):
        monkeypatch.setattr(reaping, "JOBS_AT_ONCE", 2)
        redis.set(KEYS.recovered("one3"), 2)  # one of them becomes a suspect
        dead = holding(redis, redis_url, "one", "two", jobs=5)
        connection = dead.connect()
        connection.lose = {step}
        with suppress(RedisUnavailable):
            Reaper(connection, KEYS).reap(
                dead.incarnation, redis.hget(KEYS.alive, dead.incarnation), by_owner=by_owner
            )

        watch = Watch(dead)
        watch.look_after(0)
        watch.look_for(20)

        for queue in ("one", "two"):
            back = redis.lrange(f"queue:{queue}", 0, -1)
            suspects = redis.lrange(KEYS.suspects(queue), 0, -1)
            assert sorted(back + suspects) == [text_of(f"{queue}{each}") for each in range(5)]
            assert back[::-1] == sorted(back)  # the oldest is the next to run
        assert not redis.exists("kb:inflight", "kb:reaping", KEYS.claims(dead.incarnation))
        counts = [int(redis.get(KEYS.recovered(f"two{each}")) or 0) for each in range(5)]
        assert max(counts) <= 1
        assert in_flight(redis) == []

    def test_from_the_mark_on_the_owner_neither_claims_nor_settles(self, redis, redis_url):
        dead = holding(redis, redis_url, "default")
        redis.lpush("queue:default", text_of("new"))
        claimer = dead.claimer("t2")
        chunk = claimer.claim(["default"], 1)
        redis.lpush("queue:default", text_of("newer"))
        connection = dead.connect()
        connection.lose = {1}
        with pytest.raises(RedisUnavailable):
            reap(dead, connection)

        assert not dead.settle(chunk, text_of("new"), "retry", 1.0, b"failed")
        assert put_back(claimer.connection, KEYS, chunk) < 0
        assert claimer.claim(["default"], 1) is None
        assert redis.lrange("queue:default", 0, -1) == [text_of("newer")]

    def test_two_reapers_at_once_share_the_work(self, redis, redis_url, monkeypatch):
        monkeypatch.setattr(reaping, "JOBS_AT_ONCE", 2)
        dead = holding(redis, redis_url, "default", jobs=9)
        connection = dead.connect()
        other = Reaper(dead.connect(), KEYS)

        def interfere():
            if connection.scripts == 4:
                other.go_on(dead.incarnation)

        connection.before_script = interfere

        reap(dead, connection)

        assert redis.lrange("queue:default", 0, -1)[::-1] == [
            text_of(f"default{each}") for each in range(9)
        ]
        assert not redis.exists("kb:reaping")
        assert [int(redis.get(KEYS.recovered(f"default{each}"))) for each in range(9)] == [1] * 9

    def test_one_that_somebody_else_has_ended_is_ended(self, redis, redis_url):
        dead = holding(redis, redis_url, "default")

        assert Reaper(dead.connect(), KEYS).go_on("v2:host:9:zzz:1").code == 0


class TestBounds:
    def test_a_step_moves_some_bytes_and_at_least_one_job(self, redis, redis_url, monkeypatch):
        monkeypatch.setattr(reaping, "BYTES_AT_ONCE", 100)
        dead = holding(redis, redis_url, "default", jobs=10)
        connection = dead.connect()

        assert reap(dead, connection) == 10

        assert connection.scripts == 1 + 4 + 4 + 1  # three texts of 37 bytes, four times
        assert [int(redis.get(KEYS.recovered(f"default{each}"))) for each in range(10)] == [1] * 10

    def test_no_text_reaches_the_reaper(self, redis, redis_url):
        dead = holding(redis, redis_url, "default", jobs=3)
        connection, answers = dead.connect(), []

        def noted(method):
            return lambda *args: answers.append(method(*args)) or answers[-1]

        for name in ("call", "run", "script"):
            setattr(connection, name, noted(getattr(connection, name)))
        reap(dead, connection)

        assert b'"class"' not in repr(answers).encode()
        assert redis.llen("queue:default") == 3

    def test_a_text_that_no_parser_survives_goes_back_like_any_other(self, redis, redis_url):
        bomb = b"[" * 3_000_000 + b'"jid":"inner"' + b"]" * 3_000_000
        dead = register(EngineProcess(redis_url))
        redis.lpush("queue:default", bomb)
        dead.claimer().claim(["default"], 1)

        assert reap(dead) == 1

        assert redis.lrange("queue:default", 0, -1) == [bomb]
        assert redis.get(KEYS.recovered("inner")) == b"1"


def test_what_came_back_is_claimed_alone_however_late(redis, redis_url):
    dead = holding(redis, redis_url, "default", jobs=3)
    reap(dead)
    redis.lpush("queue:default", *(b"new %d" % each for each in range(4)))
    redis.delete(KEYS.careful)  # the queue was paused for longer than that

    with EngineProcess(redis_url, identity="host:2:bbb") as process:
        claimer = process.claimer()
        sizes = [claimer.claim(["default"], 4).size for _ in range(4)]

    assert sizes == [1, 1, 1, 4]
    assert not redis.exists(KEYS.alone)


def test_a_list_that_fills_after_it_was_looked_at_is_emptied_too(redis, redis_url):
    dead = holding(redis, redis_url, "default")
    connection = dead.connect()
    run, looks = connection.run, []

    def looks_empty_at_first(*commands):
        looks.append(commands)
        return [0] * len(commands) if len(looks) == 1 else run(*commands)

    connection.run = looks_empty_at_first

    reap(dead, connection)

    assert in_flight(redis) == []
    assert redis.lrange("queue:default", 0, -1) == [text_of("default0")]


def test_unfinished_is_told_apart(redis, redis_url):
    dead = holding(redis, redis_url, "bad", "good")
    redis.set("queue:bad", "somebody's text")

    assert reap(dead) == 1

    outcome = Reaper(dead.connect(), KEYS).go_on(dead.incarnation)
    assert outcome.code == UNFINISHED
    assert outcome.blocked[0].startswith("queue:bad holds a string, not a list")
