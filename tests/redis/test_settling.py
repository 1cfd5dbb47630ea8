"""Writing what becomes of a job that did not succeed, on a real server."""

import pytest
from support.engine import put_back

from kiqbridge.errors import RedisUnavailable
from kiqbridge.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.settle.settlement import Settlement, Verdict
from kiqbridge.settle.settling import Settler, first_batch

NOW = 1_700_000_000.5
JOB = b'{"class":"Mail","args":[7],"jid":"j1"}'
KEPT = b'{"class":"Mail","args":[7],"jid":"j1","retry_count":0}'


@pytest.fixture
def settler(process):
    return Settler(process.keys)


def claim(process, redis, *jobs):
    redis.lpush("queue:default", *jobs)
    return process.claimer().claim(["default"], len(jobs))


def settlement(verdict, *, score=NOW, text=KEPT, **details):
    return Settlement(verdict=verdict, score=score, text=text, counted=True, **details)


def in_flight(redis):
    return [job for key in redis.keys("kb:inflight:*") for job in redis.lrange(key, 0, -1)]


class TestVerdicts:
    @pytest.mark.parametrize(
        ("verdict", "key"),
        [(Verdict.RETRY, "retry"), (Verdict.DEAD, "dead"), (Verdict.SCHEDULE, "schedule")],
    )
    def test_a_job_goes_to_its_set_at_its_time_and_leaves_the_list_in_flight(
        self, redis, process, settler, verdict, key
    ):
        chunk = claim(process, redis, JOB)

        assert settler.write(process.connect(), chunk, JOB, settlement(verdict))

        assert redis.zrange(key, 0, -1, withscores=True) == [(KEPT, NOW)]
        assert in_flight(redis) == []

    def test_a_job_that_makes_room_is_pushed_to_the_end_of_its_queue(self, redis, process, settler):
        chunk = claim(process, redis, JOB)
        redis.lpush("queue:default", "waiting")

        settler.write(process.connect(), chunk, JOB, settlement(Verdict.REPUSH, queue="default"))

        assert redis.lrange("queue:default", 0, -1) == [KEPT, b"waiting"]
        assert in_flight(redis) == []

    def test_a_routed_job_goes_to_the_other_queue_with_its_own_bytes(self, redis, process, settler):
        chunk = claim(process, redis, JOB)

        settler.write(process.connect(), chunk, JOB, settlement(Verdict.ROUTE, queue="ruby"))

        assert redis.lrange("queue:ruby", 0, -1) == [JOB]
        assert redis.sismember("queues", "ruby")
        assert in_flight(redis) == []

    def test_a_discarded_job_stays_until_its_chunk_is_acknowledged(self, redis, process, settler):
        chunk = claim(process, redis, JOB)
        connection = process.connect()
        before = connection.scripts

        assert settler.write(connection, chunk, JOB, settlement(Verdict.DISCARD))

        assert connection.scripts == before
        assert in_flight(redis) == [JOB]


class TestRepetition:
    @pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEAD, Verdict.REPUSH])
    def test_a_write_whose_reply_was_lost_is_carried_out_once(
        self, redis, process, settler, verdict
    ):
        chunk = claim(process, redis, JOB)
        connection = process.connect()
        connection.lose = {1}
        asked = settlement(verdict, queue="default")

        with pytest.raises(RedisUnavailable):
            settler.write(connection, chunk, JOB, asked)
        settler.write(connection, chunk, JOB, asked)

        kept = [*redis.zrange("retry", 0, -1), *redis.zrange("dead", 0, -1)]
        assert [*kept, *redis.lrange("queue:default", 0, -1)] == [KEPT]

    def test_a_job_that_was_given_back_meanwhile_is_not_ours_and_nothing_is_written(
        self, redis, process, settler
    ):
        chunk = claim(process, redis, JOB)
        put_back(process.connect(), process.keys, chunk)

        is_ours = settler.write(process.connect(), chunk, JOB, settlement(Verdict.RETRY))

        assert not is_ours
        assert redis.zcard("retry") == 0
        assert redis.lrange("queue:default", 0, -1) == [JOB]


class TestFailuresOfAChunk:
    def test_they_are_written_together_and_notified_of_in_their_order(
        self, redis, process, settler
    ):
        jobs = [b'{"class":"Mail","jid":"%d"}' % number for number in range(3)]
        chunk, called = claim(process, redis, *jobs), []
        while (text := chunk.take()) is not None:
            notify = (lambda text=text: called.append(text)) if text != jobs[1] else None
            chunk.fail(settlement(Verdict.RETRY, text=text + b" ", notify=notify))
        connection = process.connect()

        with chunk.writing:
            notifications = settler.write_failed(connection, chunk)
        assert called == []
        for notify in notifications:
            notify()

        assert connection.scripts == 1
        assert redis.zrange("retry", 0, -1) == [text + b" " for text in jobs]
        assert called == [jobs[0], jobs[2]]
        assert in_flight(redis) == []
        assert not chunk.has_failed

    def test_handlers_are_not_called_for_one_that_was_not_ours_any_more(
        self, redis, process, settler, caplog
    ):
        jobs = [b'{"class":"Mail","jid":"1"}', b'{"class":"Mail","jid":"2"}']
        chunk, called = claim(process, redis, *jobs), []
        redis.lrem(chunk.list_key, 1, jobs[0])
        asked = [
            (
                text,
                settlement(Verdict.RETRY, text=text, notify=lambda text=text: called.append(text)),
            )
            for text in jobs
        ]

        for notify in settler.write_retries(process.connect(), chunk, asked):
            notify()

        assert called == [jobs[1]]
        assert redis.zrange("retry", 0, -1) == [jobs[1]]
        assert "1 failed jobs were not ours any more" in caplog.text

    @pytest.mark.parametrize("verdict", list(Verdict))
    def test_only_retries_of_jobs_that_were_claimed_wait_for_others(
        self, redis, process, settler, verdict
    ):
        claimed = claim(process, redis, JOB)
        popped = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[JOB])

        assert settler.may_wait(claimed, settlement(verdict)) == (verdict is Verdict.RETRY)
        assert not settler.may_wait(popped, settlement(verdict))


class TestBatches:
    JOBS = tuple((b"x" * 40, settlement(Verdict.RETRY, text=b"y" * 60)) for _ in range(5))

    def test_a_batch_holds_as_many_as_its_bytes_allow(self):
        assert len(first_batch(self.JOBS, 250)) == 2
        assert len(first_batch(self.JOBS, 10_000)) == 5

    def test_one_that_is_larger_than_a_batch_goes_alone(self):
        assert len(first_batch(self.JOBS, 10)) == 1
