"""Reports for Step Functions in Redis: written with what becomes of their job, taken, removed, put off."""

import pytest
from support.engine import in_flight

from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.settle.settlement import Settlement, Target
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.due_jobs import Buried, bury
from kiqbridge.store.effects import Effect
from kiqbridge.store.task_reports import (
    has_reports,
    put_off_report,
    remove_report,
    replace_report,
    take_reports,
)

NOW = 1_700_000_000.5
JOB = b'{"class":"Bill","args":[7],"jid":"j1","task_token":"t"}'
DEAD = b'{"class":"Bill","args":[7],"jid":"j1","task_token":"t","retry_count":0}'
REPORT = b'{"task_token":"t","jid":"j1"}'
REPORTS = "kb:reports"
ENDS = "kb:flow:ends"


def reported(text):
    return Effect("add", [ENDS], [0, text])


EFFECTS = [reported(REPORT)]


@pytest.fixture
def woken():
    return []


@pytest.fixture
def settler(process, woken):
    return Settler(process.keys, on_end=lambda: woken.append(True))


def claim(process, redis, *jobs):
    redis.lpush("queue:default", *jobs)
    return process.claimer().claim(["default"], len(jobs))


def dead():
    return Settlement(target=Target.DEAD, score=NOW, text=DEAD, counted=True, effects=EFFECTS)


def done():
    return Settlement(
        target=Target.DISCARD, score=0, text=b"", counted=True, failed=False, effects=EFFECTS
    )


class TestWriting:
    @pytest.mark.parametrize("settlement", [dead, done])
    def test_a_report_is_written_in_the_place_of_its_job(
        self, redis, process, settler, woken, settlement
    ):
        chunk = claim(process, redis, JOB)

        assert settler.write(process.connect(), chunk, JOB, settlement())

        assert redis.zrange(ENDS, 0, -1, withscores=True) == [(REPORT, 0)]
        assert redis.zrange("dead", 0, -1) == [DEAD] * (settlement is dead)
        assert in_flight(redis) == []
        assert woken

    @pytest.mark.parametrize("settlement", [dead, done])
    def test_a_reply_that_is_lost_writes_no_second_one(self, redis, process, settler, settlement):
        chunk = claim(process, redis, JOB)
        connection = process.connect()
        connection.lose = {1}

        with pytest.raises(RedisUnavailable):
            settler.write(connection, chunk, JOB, settlement())
        settler.write(connection, chunk, JOB, settlement())

        assert redis.zcard(ENDS) == 1
        assert redis.zcard("dead") <= 1

    @pytest.mark.parametrize("settlement", [dead, done])
    def test_of_a_job_that_is_not_ours_any_more_nothing_is_reported(
        self, redis, process, settler, woken, settlement
    ):
        chunk = claim(process, redis, JOB)
        redis.delete(chunk.list_key)

        assert not settler.write(process.connect(), chunk, JOB, settlement())

        assert not redis.exists(ENDS, "dead")
        assert not woken

    def test_a_foreign_type_stops_it_before_anything_is_written(self, redis, process, settler):
        redis.set(ENDS, "text")
        chunk = claim(process, redis, JOB)

        with pytest.raises(RedisRefused):
            settler.write(process.connect(), chunk, JOB, dead())

        assert not redis.exists("dead")
        assert in_flight(redis) == [JOB]

    @pytest.mark.parametrize("settlement", [dead, done])
    def test_a_popped_job_is_reported_too(self, redis, process, settler, settlement):
        chunk = Chunk(
            lease=NO_LEASE, queue="default", home="queue:default", list_key="", jobs=[JOB]
        )

        assert settler.write(process.connect(), chunk, JOB, settlement())

        assert redis.zrange(ENDS, 0, -1) == [REPORT]

    def test_a_due_job_that_is_dropped_or_buried_is_reported(self, redis, process):
        redis.zadd("retry", {"dropped": NOW, "buried": NOW, "later": NOW + 1})
        members = [
            Buried(b"dropped", b"", [reported(b"r1")]),
            Buried(b"buried", b"kept", [reported(b"r2")]),
            Buried(b"later", b"", [reported(b"r3")]),
            Buried(b"gone", b"", [reported(b"r4")]),
        ]

        moved = bury(process.connect(), process.keys, "retry", members, now=NOW)

        assert moved == 2
        assert redis.zrange("retry", 0, -1) == [b"later"]
        assert redis.zrange("dead", 0, -1) == [b"kept"]
        assert sorted(redis.zrange(ENDS, 0, -1)) == [b"r1", b"r2"]


class TestTaking:
    def test_what_is_taken_is_left_alone_for_a_while(self, redis, process):
        redis.zadd(REPORTS, {"a": 0, "b": 0, "c": 0})
        connection, keys = process.connect(), process.keys

        first = take_reports(connection, keys, most=2, for_s=60)
        second = take_reports(connection, keys, most=2, for_s=60)

        assert (list(first.texts), list(second.texts)) == ([b"a", b"b"], [b"c"])
        assert take_reports(connection, keys, most=2, for_s=60).texts == []
        assert redis.zscore(REPORTS, "a") == pytest.approx(first.now + 60, abs=0.01)

    def test_it_is_due_again_after_that_time(self, redis, process):
        redis.zadd(REPORTS, {"a": 0})
        connection, keys = process.connect(), process.keys

        take_reports(connection, keys, most=1, for_s=-1)

        assert list(take_reports(connection, keys, most=1, for_s=60).texts) == [b"a"]

    def test_what_was_taken_before_the_clock_of_the_server_was_set_back_is_due(
        self, redis, process
    ):
        connection, keys = process.connect(), process.keys
        now = redis.time()[0]
        redis.zadd(REPORTS, {"taken": now + 30, "before": now + 600})

        assert list(take_reports(connection, keys, most=5, for_s=60).texts) == [b"before"]
        assert list(take_reports(connection, keys, most=5, for_s=60).texts) == []

    def test_there_are_some_until_the_last_is_removed(self, redis, process):
        connection, keys = process.connect(), process.keys
        assert not has_reports(connection, keys)
        redis.zadd(REPORTS, {"a": 0})
        assert has_reports(connection, keys)

        remove_report(connection, keys, b"a")

        assert not has_reports(connection, keys)

    def test_one_that_is_put_off_and_gone_stays_gone(self, redis, process):
        redis.zadd(REPORTS, {"a": 0})
        connection, keys = process.connect(), process.keys

        put_off_report(connection, keys, b"a", until=NOW)
        put_off_report(connection, keys, b"gone", until=NOW)

        assert redis.zrange(REPORTS, 0, -1, withscores=True) == [(b"a", NOW)]

    def test_another_one_in_its_place_is_due_at_once(self, redis, process):
        redis.zadd(REPORTS, {"a": NOW})

        replace_report(process.connect(), process.keys, b"a", b"b")

        assert redis.zrange(REPORTS, 0, -1, withscores=True) == [(b"b", 0)]
