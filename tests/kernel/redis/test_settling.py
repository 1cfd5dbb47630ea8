"""Writing what becomes of a job that did not succeed, on a real server."""

import pytest
from support.engine import in_flight, put_back

from kiqbridge import Client
from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.settle.ending import Settlement, Target, ending
from kiqbridge.engine.settle.settling import Settler, first_batch
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store.due_jobs import Buried, bury
from kiqbridge.store.effects import Effect
from kiqbridge.store.ledger import read_ledger
from kiqbridge.wire.json_text import loads
from kiqbridge.wire.keys import Keys

NOW = 1_700_000_000.5
JOB = b'{"class":"Mail","args":[7],"jid":"j1"}'
KEPT = b'{"class":"Mail","args":[7],"jid":"j1","retry_count":0}'


@pytest.fixture
def settler(process):
    return Settler(process.keys)


def claim(process, redis, *jobs):
    redis.lpush("queue:default", *jobs)
    return process.claimer().claim(["default"], len(jobs))


def settlement(target, *, score=NOW, text=KEPT, **details):
    return Settlement(target=target, score=score, text=text, counted=True, **details)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("target", "key"),
        [(Target.RETRY, "retry"), (Target.DEAD, "dead"), (Target.SCHEDULE, "schedule")],
    )
    def test_a_job_goes_to_its_set_at_its_time_and_leaves_the_list_in_flight(
        self, redis, process, settler, target, key
    ):
        chunk = claim(process, redis, JOB)

        assert settler.write(process.connect(), chunk, JOB, settlement(target))

        assert redis.zrange(key, 0, -1, withscores=True) == [(KEPT, NOW)]
        assert in_flight(redis) == []

    def test_a_job_that_makes_room_is_pushed_to_the_end_of_its_queue(self, redis, process, settler):
        chunk = claim(process, redis, JOB)
        redis.lpush("queue:default", "waiting")

        settler.write(process.connect(), chunk, JOB, settlement(Target.REPUSH, queue="default"))

        assert redis.lrange("queue:default", 0, -1) == [KEPT, b"waiting"]
        assert in_flight(redis) == []

    def test_a_routed_job_goes_to_the_other_queue_with_its_own_bytes(self, redis, process, settler):
        chunk = claim(process, redis, JOB)

        settler.write(process.connect(), chunk, JOB, settlement(Target.ROUTE, queue="ruby"))

        assert redis.lrange("queue:ruby", 0, -1) == [JOB]
        assert redis.sismember("queues", "ruby")
        assert in_flight(redis) == []

    def test_a_discarded_job_stays_until_its_chunk_is_acknowledged(self, redis, process, settler):
        chunk = claim(process, redis, JOB)
        connection = process.connect()
        before = connection.scripts

        assert settler.write(connection, chunk, JOB, settlement(Target.DISCARD))

        assert connection.scripts == before
        assert in_flight(redis) == [JOB]


class TestRepetition:
    @pytest.mark.parametrize("target", [Target.RETRY, Target.DEAD, Target.REPUSH])
    def test_a_write_whose_reply_was_lost_is_carried_out_once(
        self, redis, process, settler, target
    ):
        chunk = claim(process, redis, JOB)
        connection = process.connect()
        connection.lose = {1}
        asked = settlement(target, queue="default")

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

        is_ours = settler.write(process.connect(), chunk, JOB, settlement(Target.RETRY))

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
            chunk.end(settlement(Target.RETRY, text=text + b" ", notify=notify))
        connection = process.connect()

        with chunk.writing:
            notifications = settler.write_ended(connection, chunk)
        assert called == []
        for notify in notifications:
            notify()

        assert connection.scripts == 1
        assert redis.zrange("retry", 0, -1) == [text + b" " for text in jobs]
        assert called == [jobs[0], jobs[2]]
        assert in_flight(redis) == []
        assert not chunk.has_ended

    def test_ends_with_effects_are_written_together_with_one_word_to_the_outbox(
        self, redis, process
    ):
        woken = []
        settler = Settler(process.keys, on_end=lambda: woken.append(True))
        jobs = [b'{"class":"Mail","jid":"%d"}' % number for number in range(5)]
        chunk = claim(process, redis, *jobs)
        while (text := chunk.take()) is not None:
            if text == jobs[2]:
                chunk.end(settlement(Target.RETRY, text=text))
            else:
                effects = [Effect("add", ["kb:flow:ends"], [0, b"end of " + text])]
                chunk.end(settlement(Target.DISCARD, effects=effects))
        connection = process.connect()

        with chunk.writing:
            settler.write_ended(connection, chunk)

        assert connection.scripts == 3  # before the retry, the retry, behind it
        assert redis.zrange("retry", 0, -1) == [jobs[2]]
        ended = [b"end of " + text for text in jobs if text != jobs[2]]
        assert redis.zrange("kb:flow:ends", 0, -1) == ended
        assert in_flight(redis) == []
        assert woken == [True, True]

    def test_handlers_are_not_called_for_one_that_was_not_ours_any_more(
        self, redis, process, settler, caplog
    ):
        jobs = [b'{"class":"Mail","jid":"1"}', b'{"class":"Mail","jid":"2"}']
        chunk, called = claim(process, redis, *jobs), []
        redis.lrem(chunk.list_key, 1, jobs[0])
        asked = [
            (
                text,
                settlement(Target.RETRY, text=text, notify=lambda text=text: called.append(text)),
            )
            for text in jobs
        ]

        for notify in settler.write_together(process.connect(), chunk, asked):
            notify()

        assert called == [jobs[1]]
        assert redis.zrange("retry", 0, -1) == [jobs[1]]
        assert "1 ended jobs belong to other workers now" in caplog.text

    @pytest.mark.parametrize("target", list(Target))
    @pytest.mark.parametrize("effects", [(), [Effect("add", ["kb:flow:ends"], [0, "end"])]])
    def test_only_retries_and_successes_with_effects_wait_for_others_of_their_claim(
        self, redis, process, settler, target, effects
    ):
        claimed = claim(process, redis, JOB)
        popped = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[JOB])
        ended = settlement(target, effects=effects)

        is_one = target is Target.RETRY or (target is Target.DISCARD and bool(effects))
        assert settler.may_wait(claimed, ended) == is_one
        assert not settler.may_wait(popped, ended)


class TestBatches:
    JOBS = tuple((b"x" * 40, settlement(Target.RETRY, text=b"y" * 60)) for _ in range(5))

    def test_a_batch_holds_as_many_as_its_bytes_allow(self):
        assert len(first_batch(self.JOBS, 250)) == 2
        assert len(first_batch(self.JOBS, 10_000)) == 5

    def test_one_that_is_larger_than_a_batch_goes_alone(self):
        assert len(first_batch(self.JOBS, 10)) == 1


MINUTE = 4_000_000_020
ENDS = "kb:ends:s"
ENDED_AT = 4_000_000_025.5


@pytest.fixture
def job(client, redis):
    """The text of a job of an occurrence, in its queue."""
    client.push_tick("s", MINUTE, [{"class": "Bill", "args": [7]}], by="test")
    return redis.lindex("queue:default", 0)


def end(job, outcome="done"):
    return ending(Keys(), loads(job), outcome, ENDED_AT, took_s=0.5)


def text_of(effects):
    return effects[-1].args[1]


def done(job):
    return Settlement(
        target=Target.DISCARD, score=0, text=b"", counted=True, failed=False, effects=end(job)
    )


def dead(job):
    effects = end(job, "dead")
    return Settlement(target=Target.DEAD, score=ENDED_AT, text=job, counted=True, effects=effects)


def claim_one(process):
    return process.claimer().claim(["default"], 1)


@pytest.mark.parametrize("settlement", [done, dead])
@pytest.mark.parametrize("is_popped", [False, True])
def test_the_end_is_written_with_what_becomes_of_the_job(
    redis, process, settler, job, *, settlement, is_popped
):
    chunk = claim_one(process)
    if is_popped:
        redis.delete(chunk.list_key)
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])

    assert settler.write(process.connect(), chunk, job, settlement(job))

    assert redis.zrange(ENDS, 0, -1, withscores=True) == [
        (text_of(settlement(job).effects), MINUTE)
    ]
    [entry] = read_ledger(process.connect(), process.keys, "s")
    assert [(each.jid, each.took_s) for each in entry.ends] == [(entry.jids[0], 0.5)]
    assert redis.zrange("dead", 0, -1) == ([job] if settlement is dead else [])
    assert in_flight(redis) == []


def test_a_report_and_an_end_are_written_together(redis, process, settler, job):
    reported = Effect("add", ["kb:flow:ends"], [0, b"r"])
    chunk = claim_one(process)
    settlement = Settlement(
        target=Target.DISCARD, score=0, text=b"", counted=True, effects=[reported, *end(job)]
    )

    assert settler.write(process.connect(), chunk, job, settlement)

    assert redis.zrange("kb:flow:ends", 0, -1) == [b"r"]
    assert redis.zrange(ENDS, 0, -1) == [text_of(end(job))]


@pytest.mark.parametrize("is_popped", [False, True])
def test_what_is_in_no_ledger_any_more_has_no_end_that_would_stay_for_ever(
    redis, process, settler, job, is_popped
):
    chunk = claim_one(process)
    if is_popped:
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])
    redis.delete("kb:ticks:s")

    assert settler.write(process.connect(), chunk, job, done(job))

    assert not redis.exists(ENDS)


def test_an_occurrence_has_a_bounded_number_of_ends(redis, process, settler, job):
    chunk = claim_one(process)
    redis.zadd(ENDS, {f"end {number}": MINUTE for number in range(2000)})

    assert settler.write(process.connect(), chunk, job, done(job))

    assert redis.zcard(ENDS) == 2000
    assert in_flight(redis) == []


@pytest.mark.parametrize("key", [ENDS, "kb:ticks:s"])
@pytest.mark.parametrize("is_popped", [False, True])
@pytest.mark.parametrize("settlement", [done, dead])
def test_a_key_of_another_type_keeps_no_job_and_is_logged(
    redis, process, settler, job, *, caplog, key, is_popped, settlement
):
    chunk = claim_one(process)
    if is_popped:
        redis.delete(chunk.list_key)
        chunk = Chunk(lease=NO_LEASE, queue="default", home="", list_key="", jobs=[job])
    redis.delete(key)
    redis.set(key, "foreign")

    assert settler.write(process.connect(), chunk, job, settlement(job))

    assert in_flight(redis) == []
    assert redis.zcard("dead") == (settlement is dead)
    assert redis.get(key) == b"foreign"
    assert "is not in its ledger" in caplog.text
    assert key in caplog.text


def test_a_due_job_that_is_dropped_or_buried_has_an_end(redis, process, redis_url):
    client = Client(redis_url)
    members, buried = [], []
    for number, schedule in enumerate(["s", "t", "u"]):
        at = MINUTE + 60 * number
        client.push_tick(schedule, at, [{"class": "A", "args": []}], by="test")
        text = redis.rpop("queue:default")
        redis.zadd("retry", {text: ENDED_AT})
        members.append(text)
        buried.append(Buried(text, b"" if number else b"kept", end(text, "dead")))
    buried.insert(1, Buried(b"plain", b""))
    redis.zadd("retry", {"plain": ENDED_AT, members[2]: ENDED_AT + 9})
    client.close()

    moved = bury(process.connect(), process.keys, "retry", buried, now=ENDED_AT)

    assert moved == 3
    assert redis.zrange("dead", 0, -1) == [b"kept"]
    assert redis.zrange("kb:ends:s", 0, -1) == [text_of(buried[0].effects)]
    assert redis.zrange("kb:ends:t", 0, -1) == [text_of(buried[2].effects)]
    assert not redis.exists("kb:ends:u")  # put off meanwhile


def test_a_ledger_of_another_type_holds_up_no_due_job(redis, process, job):
    redis.zadd("retry", {job: ENDED_AT})
    redis.set(ENDS, "foreign")

    moved = bury(
        process.connect(),
        process.keys,
        "retry",
        [Buried(job, b"kept", end(job))],
        now=ENDED_AT,
    )

    assert moved == 1
    assert redis.zrange("dead", 0, -1) == [b"kept"]
