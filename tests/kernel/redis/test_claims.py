"""The contract of claims and of every way out of the in-flight lists, on a real server."""

import pytest
from support.engine import EngineProcess, in_flight, put_back
from support.servers import without_command

from kiqbridge.client.client import Client
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.engine.settle.settling import settle_all
from kiqbridge.errors import RedisRefused, RedisUnavailable

JOBS = [b"job %d" % number for number in range(1, 21)]

MUST_CLAIM = {1: {"hset", "del"}, 3: {"hset", "del", "lrange", "rpush", "ltrim"}}
"""Jobs that are taken at once → commands without which none can be."""


@pytest.fixture
def claimer(process):
    return process.claimer()


def enqueue(redis, *jobs, queue="default"):
    redis.lpush(f"queue:{queue}", *jobs)


def waiting(redis, queue="default"):
    """Jobs of a queue, the next to run first."""
    return redis.lrange(f"queue:{queue}", 0, -1)[::-1]


def run_order(chunk):
    return list(chunk.waiting)[::-1]


class TestClaiming:
    def test_the_oldest_jobs_come_first(self, redis, claimer):
        enqueue(redis, *JOBS)

        chunk = claimer.claim(["default"], 3)

        assert chunk.queue == "default"
        assert run_order(chunk) == JOBS[:3]
        assert [chunk.take(), chunk.take()] == JOBS[:2]
        assert waiting(redis) == JOBS[3:]

    def test_claimed_jobs_stay_in_redis_until_the_next_claim_acknowledges_them(
        self, redis, process, claimer
    ):
        enqueue(redis, *JOBS)
        even, odd = process.lists()

        claimer.claim(["default"], 2)
        assert redis.lrange(odd, 0, -1)[::-1] == JOBS[:2]
        claimer.claim(["default"], 2)

        assert redis.lrange(even, 0, -1)[::-1] == JOBS[2:4]
        assert not redis.exists(odd)
        assert redis.hget(process.keys.claims(process.incarnation), "t1") == b"2 default"

    @pytest.mark.parametrize("most", [1, 5])  # one job is moved, several are read and added
    def test_a_claim_takes_from_one_queue_the_first_that_has_jobs(self, redis, claimer, most):
        enqueue(redis, b"low", queue="low")
        enqueue(redis, b"mid", queue="mid")

        chunk = claimer.claim(["high", "mid", "low"], most)

        assert (chunk.queue, run_order(chunk)) == ("mid", [b"mid"])
        assert waiting(redis, "low") == [b"low"]

    @pytest.mark.parametrize("most", [1, 5])  # one job is moved, several are read and added
    def test_a_paused_queue_is_passed_over(self, redis, claimer, most):
        enqueue(redis, b"high", queue="high")
        enqueue(redis, b"low", queue="low")
        redis.sadd("paused", "high")

        assert claimer.claim(["high", "low"], most).queue == "low"
        assert claimer.claim(["high", "low"], most) is None
        redis.srem("paused", "high")

        assert claimer.claim(["high", "low"], most).queue == "high"

    @pytest.mark.parametrize("most", [1, 5])  # one job is moved, several are read and added
    def test_a_queue_key_of_a_foreign_type_does_not_block_the_others(self, redis, claimer, most):
        redis.set("queue:broken", "not a list")
        enqueue(redis, b"job")

        chunk = claimer.claim(["broken", "default"], most)

        assert run_order(chunk) == [b"job"]
        assert redis.get("queue:broken") == b"not a list"

    @pytest.mark.parametrize(
        ("jobs", "asked", "taken"),
        [
            (20, (100, 0), 20),
            (20, (100, 3), 5),
            (20, (4, 3), 4),
            (7, (100, 3), 1),
            (2, (100, 9), 1),
            (20, (1, 3), 1),
        ],
    )
    def test_a_claim_leaves_those_that_share_their_part(self, redis, claimer, jobs, asked, taken):
        most, sharers = asked
        enqueue(redis, *JOBS[:jobs])
        redis.set("queue:broken", "not a list")

        chunk = claimer.claim(["none", "broken", "default"], most, sharers=sharers)

        assert run_order(chunk) == JOBS[:taken]
        assert waiting(redis) == JOBS[taken:jobs]
        assert claimer.claim(["none"], most, sharers=sharers) is None

    def test_a_share_is_taken_with_care_too(self, redis, claimer):
        enqueue(redis, b'{"class":"A"}', b'{"class":"B"}')
        redis.sadd("paused", "default")

        assert claimer.claim(["default"], 5, sharers=3) is None
        redis.srem("paused", "default")
        assert claimer.claim(["default"], 5, ["A"], sharers=3) is None

        assert len(waiting(redis)) == 2

    @pytest.mark.parametrize("jobs", [0, 1])
    def test_an_idle_process_costs_the_server_few_calls(self, redis, claimer, jobs):
        claimer.claim(["a", "b", "c"], 10)
        redis.config_resetstat()
        for job in JOBS[:jobs]:
            enqueue(redis, job, queue="b")

        claimer.claim(["a", "b", "c"], 10)

        calls = {name: each["calls"] for name, each in redis.info("commandstats").items()}
        assert calls["cmdstat_exists"] == 1 + jobs  # of all queues; then of what pauses or isolates
        assert "cmdstat_lrange" not in calls
        assert "cmdstat_del" not in calls  # the claim before has brought nothing
        assert calls.get("cmdstat_lmove", 0) == jobs
        assert calls.get("cmdstat_llen", 0) == 2 * jobs

    def test_nothing_to_claim_is_none_and_still_acknowledges(self, redis, claimer):
        enqueue(redis, b"job")
        claimer.claim(["default"], 5)

        assert claimer.claim(["default"], 5) is None
        assert in_flight(redis) == []

    def test_claimers_of_one_process_do_not_touch_each_other(self, redis, process):
        enqueue(redis, *JOBS[:4])
        first, second = process.claimer("t1"), process.claimer("t2")

        mine, theirs = first.claim(["default"], 2), second.claim(["default"], 2)
        assert first.claim((), 0) is None  # without queues it only acknowledges

        assert run_order(mine) + run_order(theirs) == JOBS[:4]
        assert in_flight(redis) == JOBS[2:4]

    def test_another_thread_can_acknowledge_and_the_owner_can_go_on(self, redis, process, claimer):
        enqueue(redis, *JOBS[:3])
        claimer.claim(["default"], 1)

        claimer.acknowledge_for(process.connect())

        assert in_flight(redis) == []
        assert run_order(claimer.claim(["default"], 1)) == [JOBS[1]]

    def test_an_acknowledgement_by_another_thread_loses_nothing_that_the_owner_claimed(
        self, redis, process
    ):
        enqueue(redis, *JOBS[:2])
        claimer = process.claimer()
        claimer.claim(["default"], 1)
        late = process.claimer()  # the same number as the owner's next claim
        late._sequence = 1
        claimer.claim(["default"], 1)

        late.acknowledge_for(process.connect())

        assert in_flight(redis) == [JOBS[1]]


class TestLostReplies:
    def claim_all(self, process, lose):
        """Everything that a claimer gets to run while the given claims' replies are lost."""
        connection = process.connect()
        connection.lose = lose
        claimer = process.claimer(connection=connection)
        got = []
        while connection.scripts < 60:
            try:
                chunk = claimer.claim(["default"], 5)
            except RedisUnavailable:
                continue
            if chunk is None:
                return got
            got.append(run_order(chunk))
        raise AssertionError("the queue never ended")

    def test_a_single_job_claimed_again_and_again_is_in_redis_once(self, redis, process):
        """A reply of one job is lost at each third call, and the claim repeated."""
        enqueue(redis, *JOBS)
        connection = process.connect()
        connection.lose = set(range(1, 60, 3))
        claimer = process.claimer(connection=connection)
        got = []
        for _ in range(60):
            try:
                chunk = claimer.claim(["default"], 1)
            except RedisUnavailable:
                continue
            if chunk is None:
                break
            got += run_order(chunk)
            assert in_flight(redis) == got[-1:]

        assert got == JOBS
        assert waiting(redis) == in_flight(redis) == []

    def test_a_claim_into_a_list_of_a_foreign_type_leaves_the_job_where_it_is(
        self, redis, process, claimer
    ):
        enqueue(redis, b"job")
        redis.set(process.lists()[1], "not a list")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            claimer.claim(["default"], 1)

        assert waiting(redis) == [b"job"]

    @pytest.mark.parametrize("most", [1, 3])
    @pytest.mark.parametrize("command", ["hset", "del", "lrange", "rpush", "ltrim", "lmove"])
    def test_a_command_that_is_refused_in_the_middle_costs_no_job_and_repeats_none(
        self, redis, redis_url, server, command, most
    ):
        with without_command(redis, server, "scan") as url, EngineProcess(url) as process:
            claimer = process.claimer()
            enqueue(redis, *JOBS)
            got = run_order(claimer.claim(["default"], most))
            redis.execute_command("ACL", "SETUSER", "poor", f"-{command}")
            refused = 0
            for _ in range(3):
                try:
                    got += run_order(claimer.claim(["default"], most))
                except RedisRefused:
                    refused += 1
            redis.execute_command("ACL", "SETUSER", "poor", f"+{command}")
            while (chunk := claimer.claim(["default"], most)) is not None:
                got += run_order(chunk)

        assert sorted(got) == sorted(JOBS)
        assert waiting(redis) == in_flight(redis) == []
        assert refused == (3 if command in MUST_CLAIM[most] else 0)

    @pytest.mark.parametrize("step", range(1, 6))
    def test_a_reply_lost_at_any_step_costs_no_job_and_doubles_none(self, redis, process, step):
        enqueue(redis, *JOBS)

        got = self.claim_all(process, {step})

        assert got == [JOBS[start : start + 5] for start in range(0, 20, 5)]
        assert waiting(redis) == in_flight(redis) == []

    def test_every_reply_lost_twice_costs_no_job_and_doubles_none(self, redis, process):
        enqueue(redis, *JOBS)

        got = self.claim_all(process, {call for call in range(1, 60) if call % 3})

        assert [job for chunk in got for job in chunk] == JOBS
        assert waiting(redis) == in_flight(redis) == []

    def test_a_claim_that_is_delivered_after_its_repetition_takes_nothing(self, redis, process):
        connection = process.connect()
        connection.lose = {1}
        claimer = process.claimer(connection=connection)
        with pytest.raises(RedisUnavailable):
            claimer.claim(["default"], 5)
        assert (
            claimer.claim(["default"], 5) is None
        )  # its reply is known, that of the first one is not
        enqueue(redis, b"job")

        late = process.claimer()  # it sends what the first one has sent
        assert late.claim(["default"], 5) is None
        assert waiting(redis) == [b"job"]
        assert run_order(claimer.claim(["default"], 5)) == [b"job"]

    def test_claims_that_bring_nothing_write_nothing_and_use_no_number(
        self, redis, process, claimer
    ):
        enqueue(redis, *JOBS[:2])
        first = claimer.claim(["default"], 1)
        assert claimer.claim(["none"], 1) is None
        redis.config_resetstat()
        assert claimer.claim(["none"], 1) is None
        calls = redis.info("commandstats")
        assert "cmdstat_hset" not in calls
        assert "cmdstat_del" not in calls

        second = claimer.claim(["default"], 1)

        assert (run_order(first), run_order(second)) == ([JOBS[0]], [JOBS[1]])
        assert (first.sequence, second.sequence) == (1, 2)
        assert in_flight(redis) == [JOBS[1]]


class TestFencing:
    def test_without_its_registration_a_claim_takes_nothing_and_registers_anew(
        self, redis, process, claimer
    ):
        enqueue(redis, b"job")
        old = process.incarnation
        redis.srem("kb:inflight", old)

        assert claimer.claim(["default"], 5) is None

        assert process.incarnation != old
        assert redis.smembers("kb:inflight") == {process.incarnation.encode()}
        assert waiting(redis) == [b"job"]
        assert run_order(claimer.claim(["default"], 5)) == [b"job"]

    def test_a_fenced_claimer_does_not_acknowledge_what_was_given_to_others(
        self, redis, process, claimer
    ):
        enqueue(redis, b"job")
        chunk = claimer.claim(["default"], 5)
        redis.srem("kb:inflight", chunk.lease.incarnation)

        claimer.claim(["default"], 5)

        assert redis.lrange(chunk.list_key, 0, -1) == [b"job"]
        assert chunk.lease.lost

    def test_a_number_out_of_sequence_is_refused_and_the_lease_renounced(self, redis, process):
        enqueue(redis, *JOBS[:3])
        claimer, twin = process.claimer(), process.claimer()
        claimer.claim(["default"], 1)
        claimer.claim(["default"], 1)
        old = process.incarnation

        assert twin.claim(["default"], 1) is None  # claim 1, where 2 is stored

        assert process.incarnation != old
        assert waiting(redis) == [JOBS[2]]
        assert in_flight(redis) == [JOBS[1]]  # for the reaper

    def test_a_number_from_the_future_is_refused(self, redis, process, claimer):
        enqueue(redis, b"job")
        claimer._sequence = 5
        old = process.incarnation

        assert claimer.claim(["default"], 1) is None
        assert process.incarnation != old
        assert waiting(redis) == [b"job"]


class TestSettling:
    def test_several_are_settled_in_one_step(self, redis, process, claimer):
        enqueue(redis, *JOBS[:4])
        chunk = claimer.claim(["default"], 4)
        jobs = [(JOBS[0], 1.5, b"first", ()), (JOBS[2], 2.0, b"third", ())]

        assert (
            settle_all(process.connect(), process.keys, chunk, jobs, target="retry") == [True] * 2
        )

        assert redis.zrange("retry", 0, -1, withscores=True) == [(b"first", 1.5), (b"third", 2.0)]
        assert in_flight(redis) == [JOBS[1], JOBS[3]]

    def test_several_whose_reply_was_lost_get_one_life(self, redis, process, claimer):
        enqueue(redis, *JOBS[:3])
        chunk = claimer.claim(["default"], 3)
        connection = process.connect()
        connection.lose = {1}

        def settle_two(text):
            jobs = [(JOBS[0], 1.0, text, ()), (JOBS[1], 1.0, text + b" too", ())]
            return settle_all(connection, process.keys, chunk, jobs, target="retry")

        with pytest.raises(RedisUnavailable):
            settle_two(b"first")
        assert settle_two(b"second") == [False, False]

        assert redis.zrange("retry", 0, -1) == [b"first", b"first too"]
        assert in_flight(redis) == [JOBS[2]]

    def test_of_several_only_those_that_are_ours_are_settled(self, redis, process, claimer):
        enqueue(redis, *JOBS[:2], JOBS[0])
        chunk = claimer.claim(["default"], 3)
        put_back(process.connect(), process.keys, chunk, [JOBS[1]])
        jobs = [(job, 1.0, b"%d" % number, ()) for number, job in enumerate([JOBS[0], JOBS[1]] * 2)]

        outcome = settle_all(process.connect(), process.keys, chunk, jobs, target="retry")

        assert outcome == [True, False, True, False]  # the first text was claimed twice
        assert redis.zrange("retry", 0, -1) == [b"0", b"2"]
        assert waiting(redis) == [JOBS[1]]
        assert in_flight(redis) == []

    def test_into_a_key_of_a_foreign_type_nothing_is_settled(self, redis, process, claimer):
        enqueue(redis, *JOBS[:2])
        chunk = claimer.claim(["default"], 2)
        redis.set("retry", "no sorted set")
        jobs = [(job, 1.0, b"failed", ()) for job in JOBS[:2]]

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            settle_all(process.connect(), process.keys, chunk, jobs, target="retry")

        assert in_flight(redis) == JOBS[:2]

    def test_after_fencing_several_are_left_alone(self, redis, process, claimer):
        enqueue(redis, *JOBS[:2])
        chunk = claimer.claim(["default"], 2)
        redis.srem("kb:inflight", chunk.lease.incarnation)
        jobs = [(job, 1.0, b"failed", ()) for job in JOBS[:2]]

        outcome = settle_all(process.connect(), process.keys, chunk, jobs, target="retry")

        assert outcome == [False, False]
        assert not redis.exists("retry")
        assert in_flight(redis) == JOBS[:2]

    def test_after_a_reap_it_does_nothing_and_the_job_has_one_life(self, redis, process, claimer):
        enqueue(redis, b"job")
        chunk = claimer.claim(["default"], 1)
        redis.hdel(process.keys.alive, process.incarnation)
        assert Reaper(process.connect(), process.keys).reap(process.incarnation) == 1

        assert not process.settle(chunk, b"job", "retry", 1.0, b"failed")

        assert waiting(redis) == [b"job"]
        assert not redis.exists("retry")


class TestGivingBack:
    def test_the_oldest_runs_next_and_bytes_are_untouched(self, redis, process, claimer):
        enqueue(redis, *JOBS[:6])
        chunk = claimer.claim(["default"], 4)
        chunk.take()  # the first is running

        assert put_back(claimer.connection, process.keys, chunk) == 3

        assert waiting(redis) == JOBS[1:6]
        assert in_flight(redis) == JOBS[:1]

    def test_repeated_it_has_no_second_effect(self, redis, process, claimer):
        enqueue(redis, *JOBS[:3])
        chunk = claimer.claim(["default"], 3)
        jobs = chunk.waiting

        put_back(claimer.connection, process.keys, chunk)
        assert put_back(process.connect(), process.keys, chunk, jobs) == 0

        assert waiting(redis) == JOBS[:3]

    def test_after_fencing_it_does_nothing(self, redis, process, claimer):
        enqueue(redis, *JOBS[:3])
        chunk = claimer.claim(["default"], 3)
        redis.srem("kb:inflight", chunk.lease.incarnation)

        assert put_back(claimer.connection, process.keys, chunk) < 0
        assert waiting(redis) == []

    def test_nothing_to_give_back_asks_nobody(self, redis, process, claimer):
        enqueue(redis, b"job")
        chunk = claimer.claim(["default"], 1)
        connection = process.connect()

        chunk.take()
        assert put_back(connection, process.keys, chunk) == 0
        assert connection.scripts == 0


class TestReaping:
    def die(self, redis, process):
        redis.hdel(process.keys.alive, process.incarnation)

    def test_one_that_claims_without_end_is_stopped_and_all_goes_back(
        self, redis, process, claimer
    ):
        enqueue(redis, *JOBS)
        self.die(redis, process)
        old = process.incarnation
        connection = process.connect()
        connection.before_script = lambda: (
            old == process.incarnation and claimer.claim(["default"], 2)
        )

        assert Reaper(connection, process.keys).reap(old) == 2

        assert waiting(redis) == JOBS
        assert redis.smembers("kb:inflight") == {process.incarnation.encode()}


class TestFullMemory:
    @pytest.fixture
    def fill_memory(self, redis):
        """No byte is free from the call on; the scripts are not loaded yet."""

        def fill():
            redis.script_flush()
            redis.config_set("maxmemory", 1)

        yield fill
        redis.config_set("maxmemory", 0)

    def test_claims_settling_giving_back_and_reaping_go_on(
        self, redis, process, claimer, fill_memory
    ):
        enqueue(redis, *JOBS[:6])
        fill_memory()

        chunk = claimer.claim(["default"], 3)
        assert process.settle(chunk, chunk.take(), "retry", 1.0, b"failed")
        assert put_back(claimer.connection, process.keys, chunk) == 2
        claimer.claim(["default"], 2)
        assert Reaper(process.connect(), process.keys).reap(process.incarnation, by_owner=True) == 2

        assert waiting(redis) == JOBS[1:6]
        assert redis.zrange("retry", 0, -1) == [b"failed"]

    def test_a_process_can_register_and_renew(self, redis, redis_url, fill_memory):
        fill_memory()

        with EngineProcess(redis_url, identity="host:2:bbb") as late:
            late.keeper.current.valid_until = 0.0
            assert late.keeper.confirm(late.keeper.current)
            assert redis.sismember("kb:inflight", late.incarnation)

    def test_pushes_are_refused_as_a_whole(self, redis, redis_url, fill_memory):
        client = Client(redis_url)
        item = {"class": "Nop", "args": []}
        fill_memory()

        with pytest.raises(RedisUnavailable, match="OOM"):
            client.push(item)
        with pytest.raises(RedisUnavailable, match="OOM"):
            client.push_once([item], ["event#0"])
        with pytest.raises(RedisUnavailable, match="OOM"):
            client.push_tick("stack/Nightly", 4_000_000_000, [item], by="test")

        assert not redis.keys("*")
