"""How often a job was found orphaned, who becomes a suspect, and care after a recovery."""

import hashlib
import json
import logging

import pytest
from support.engine import EngineProcess, Watch, put_back, register

from kiqbridge.engine.inflight.reaping import (
    COUNTED_FOR_S,
    count_orphan,
    forget_orphan,
    orphan_count,
    orphan_counts,
    orphan_id,
)
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()
THREE_DAYS_S = 3 * 86_400


def text_of(jid):
    return json.dumps({"class": "A", "args": [], "jid": jid}).encode()


def sha1(text):
    return hashlib.sha1(text).hexdigest()


@pytest.fixture
def orphan(redis, redis_url):
    """A process claims jobs that wait in a queue, and dies; the number tells it from others."""

    def die(number=1, *, most=10, queue="default", **options):
        with EngineProcess(redis_url, identity=f"host:{number}:aaa") as process:
            chunk = process.claimer().claim([queue], most)
            redis.hdel(process.keys.alive, process.incarnation)
            reaper = Reaper(process.connect(), process.keys, **options)
            return chunk, reaper.reap(process.incarnation)

    return die


def count(redis, jid):
    return int(redis.get(KEYS.recovered(jid)) or 0)


class TestCounting:
    def test_each_job_of_the_dead_is_counted_for_three_days(self, redis, orphan):
        redis.lpush("queue:default", text_of("aaa"), text_of("bbb"))

        orphan()

        assert (count(redis, "aaa"), count(redis, "bbb")) == (1, 1)
        assert THREE_DAYS_S - 60 < redis.ttl(KEYS.recovered("aaa")) <= THREE_DAYS_S
        assert COUNTED_FOR_S == THREE_DAYS_S

    @pytest.mark.parametrize(
        "text",
        [
            b"not json",
            b'["a list"]',
            b'{"class":"A"}',
            b'{"jid":7}',
            b'{"jid":""}',
            b'{"jid":"with blanks"}',
            b'{"jid":"\xff"}',
            json.dumps({"jid": "x" * 101}).encode(),
            json.dumps({"jid": "\ud800"}).encode(),
        ],
    )
    def test_without_a_plain_jid_the_bytes_are_counted(self, redis, orphan, text):
        redis.lpush("queue:default", text)

        orphan()

        assert orphan_id(text) == sha1(text)
        assert count(redis, sha1(text)) == 1
        assert redis.lrange("queue:default", 0, -1) == [text]

    def test_an_owner_that_signs_off_in_order_counts_nothing(self, redis, redis_url):
        redis.lpush("queue:default", text_of("aaa"))
        with EngineProcess(redis_url) as process:
            process.claimer().claim(["default"], 1)
            assert process.keeper.stop() == 1

        assert redis.lrange("queue:default", 0, -1) == [text_of("aaa")]
        assert redis.keys("kb:*") == []

        assert process.keeper.current.lost

    def test_what_was_settled_by_a_frozen_owner_in_between_is_not_counted(self, redis, redis_url):
        redis.lpush("queue:default", text_of("aaa"), text_of("bbb"))
        with EngineProcess(redis_url) as process:
            claimer = process.claimer()
            chunk = claimer.claim(["default"], 2)
            redis.hdel(process.keys.alive, process.incarnation)
            connection = process.connect()
            settle = iter([lambda: process.settle(chunk, text_of("aaa"), "retry", 1.0, b"failed")])
            connection.before_script = lambda: [each() for each in settle]

            assert Reaper(connection, process.keys).reap(process.incarnation) == 1

        assert (count(redis, "aaa"), count(redis, "bbb")) == (0, 1)

    def test_a_count_of_a_foreign_type_keeps_no_job_from_going_back(self, redis, orphan):
        redis.lpush("queue:default", text_of("aaa"), text_of("bbb"))
        redis.lpush(KEYS.recovered("aaa"), "no count")
        redis.set(KEYS.recovered("bbb"), "no number")
        redis.set(KEYS.careful, "no set")

        _, returned = orphan()

        assert returned == 2
        assert redis.llen("queue:default") == 2


class TestSuspects:
    def test_found_for_the_third_time_it_becomes_a_suspect_with_its_bytes_unchanged(
        self, redis, orphan
    ):
        redis.lpush("queue:default", text_of("aaa"))

        for number in range(3):
            orphan(number)

        assert redis.lrange(KEYS.suspects("default"), 0, -1) == [text_of("aaa")]
        assert not redis.exists("queue:default")
        assert count(redis, "aaa") == 3

    def test_neighbours_that_were_found_less_often_go_back_to_the_queue(self, redis, orphan):
        redis.set(KEYS.recovered("bad"), 2)
        redis.lpush("queue:default", text_of("one"), text_of("bad"), text_of("two"))

        chunk, returned = orphan()

        assert chunk.size == 3
        assert returned == 3
        assert redis.lrange(KEYS.suspects("default"), 0, -1) == [text_of("bad")]
        assert redis.lrange("queue:default", 0, -1) == [text_of("two"), text_of("one")]

    def test_one_that_stays_a_suspect_is_not_counted_any_further(self, redis, orphan):
        redis.set(KEYS.recovered("aaa"), 3)
        redis.lpush("queue:default", text_of("aaa"))

        orphan()

        assert count(redis, "aaa") == 3
        assert redis.ttl(KEYS.recovered("aaa")) > 0
        assert redis.llen(KEYS.suspects("default")) == 1

    def test_those_that_wait_already_come_first(self, redis, orphan):
        redis.lpush(KEYS.suspects("default"), b"waits")
        redis.mset({KEYS.recovered("one"): 2, KEYS.recovered("two"): 2})
        redis.lpush("queue:default", text_of("one"), text_of("two"))

        orphan()

        oldest_first = redis.lrange(KEYS.suspects("default"), 0, -1)[::-1]
        assert oldest_first == [b"waits", text_of("one"), text_of("two")]

    def test_the_limit_is_a_setting(self, redis, orphan):
        redis.lpush("queue:default", text_of("aaa"))

        orphan(orphan_limit=1)

        assert redis.llen(KEYS.suspects("default")) == 1

    def test_the_rescue_says_so(self, redis, redis_url, caplog):
        redis.set(KEYS.recovered("aaa"), 2)
        redis.lpush("queue:default", text_of("aaa"), text_of("bbb"))
        process = register(EngineProcess(redis_url))
        process.claimer().claim(["default"], 2)
        watch = Watch(process)
        watch.look_after(0)
        watch.look_for(18)

        told = [
            record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
        ]
        assert "1 of its jobs went back to their queues" in told[0]
        assert told[1].startswith("1 more were found orphaned 3 times")

    def test_a_suspect_is_claimed_like_any_job_and_goes_back_to_the_suspects(
        self, redis, redis_url
    ):
        redis.lpush(KEYS.suspects("mail"), text_of("aaa"), text_of("bbb"))
        with EngineProcess(redis_url) as process:
            claimer = process.claimer(source=process.keys.suspects)
            chunk = claimer.claim(["default", "mail"], 1)

            assert (chunk.queue, list(chunk.waiting)) == ("mail", [text_of("aaa")])
            assert redis.lrange(chunk.list_key, 0, -1) == [text_of("aaa")]
            assert put_back(claimer.connection, KEYS, chunk) == 1

        assert redis.lrange(KEYS.suspects("mail"), -1, -1) == [text_of("aaa")]
        assert not redis.exists("queue:mail")

    def test_suspects_of_a_paused_queue_wait(self, redis, redis_url):
        redis.lpush(KEYS.suspects("mail"), text_of("aaa"))
        redis.sadd("paused", "mail")
        with EngineProcess(redis_url) as process:
            claimer = process.claimer(source=process.keys.suspects)

            assert claimer.claim(["mail"], 1) is None


class TestCare:
    def test_after_a_recovery_jobs_of_that_queue_are_claimed_one_by_one_for_a_minute(
        self, redis, redis_url, orphan
    ):
        redis.lpush("queue:default", *(text_of(f"j{number}") for number in range(6)))
        redis.lpush("queue:other", b"x", b"y")
        orphan(most=2)

        assert 50 < redis.ttl(KEYS.careful) <= 60
        with EngineProcess(redis_url, identity="host:2:bbb") as process:
            claimer = process.claimer()
            assert list(claimer.claim(["default"], 4).waiting) == [text_of("j0")]
            assert claimer.claim(["other"], 4).size == 2
            redis.delete(KEYS.careful)  # as when its time is over
            assert list(claimer.claim(["default"], 4).waiting) == [
                text_of("j1")
            ]  # it came back, too
            assert claimer.claim(["default"], 4).size == 4

    def test_a_dead_process_without_jobs_asks_for_no_care(self, redis, orphan):
        orphan()

        assert not redis.exists(KEYS.careful)


def test_each_time_counts_and_keeps_the_count_for_three_days(connection, redis):
    assert orphan_count(connection, KEYS, "abc") == 0
    count_orphan(connection, KEYS, "abc")
    redis.expire(KEYS.recovered("abc"), 10)

    count_orphan(connection, KEYS, "abc")

    assert orphan_count(connection, KEYS, "abc") == 2
    assert COUNTED_FOR_S - 60 < redis.ttl(KEYS.recovered("abc")) <= COUNTED_FOR_S


def test_a_count_that_is_forgotten_begins_anew(connection):
    count_orphan(connection, KEYS, "abc")

    forget_orphan(connection, KEYS, "abc")

    assert orphan_count(connection, KEYS, "abc") == 0


def test_many_counts_are_read_in_steps_and_what_is_no_number_counts_as_none(connection, redis):
    names = [f"job{number}" for number in range(2500)]
    redis.set(KEYS.recovered("job0"), "nonsense")
    redis.set(KEYS.recovered("job2499"), 2)

    counts = orphan_counts(connection, KEYS, names)

    assert list(counts) == names
    assert {name: count for name, count in counts.items() if count} == {"job2499": 2}


def test_no_names_need_no_call():
    connection = RedisPool("redis://127.0.0.1:1/0").connection()

    assert orphan_counts(connection, KEYS, []) == {}
