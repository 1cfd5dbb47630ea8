"""The contract of claims and of every way out of the in-flight lists, on a real server."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
from support.engine import EngineProcess, in_flight, poller_on, put_back
from support.servers import one_node_cluster, without_command
from support.waiting import wait_until

from kiqbridge.api import DeadSet, Queue, open_operator, record_audit
from kiqbridge.client.client import Client
from kiqbridge.client.schedule import Schedule
from kiqbridge.client.schedules import Schedules
from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.clocks.manifest_store import publish_manifest
from kiqbridge.clocks.missed import check_missed
from kiqbridge.clocks.placing import place_due
from kiqbridge.clocks.sidekiq_cron import set_cron_status
from kiqbridge.engine.dead_trim import DeadTrim
from kiqbridge.engine.heartbeat import Stats
from kiqbridge.engine.inflight.claims import acknowledge, repush, route, settle_all
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.engine.inflight.unregistered import find_unregistered
from kiqbridge.engine.outbox.effects import EffectContext
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.perform.listening import Listening, PendingClaim, State
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.flow import Batch, limiter
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect
from kiqbridge.store.limits import Lock, renew_lock
from kiqbridge.store.locks import begin_lock, find_due_locks, looked_at, scan_flow
from kiqbridge.store.outbox import apply_ends, take_ends
from kiqbridge.store.pauses import end_pause, read_entries
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.runs import RunMark, begin_run, end_run
from kiqbridge.store.task_reports import take_reports
from kiqbridge.store.transfer.form import Place, Record
from kiqbridge.store.transfer.reading import Taker, find_held, give_back
from kiqbridge.store.transfer.state import StateSource, mark_away, put_records
from kiqbridge.store.transfer.writing import Restorer
from kiqbridge.wire.dead_bounds import DeadBounds
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import LockMark
from kiqbridge.wire.tick_mark import TickMark

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

    def test_another_thread_can_acknowledge_and_the_owners_own_claim_then_repeats_it(
        self, redis, process, claimer
    ):
        enqueue(redis, *JOBS[:3])
        claimer.claim(["default"], 1)

        claimer.acknowledge_for(process.connect())

        assert in_flight(redis) == []
        assert claimer.claim(["default"], 1) is None  # bears the number of the acknowledgement
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

    def test_a_lost_empty_reply_is_repeated_as_empty_even_if_jobs_came_meanwhile(
        self, redis, process
    ):
        connection = process.connect()
        connection.lose = {1}
        claimer = process.claimer(connection=connection)
        with pytest.raises(RedisUnavailable):
            claimer.claim(["default"], 5)
        enqueue(redis, b"job")

        assert claimer.claim(["default"], 5) is None
        assert run_order(claimer.claim(["default"], 5)) == [b"job"]


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


class TestCluster:
    """A single node that owns all slots refuses scripts whose keys lie in different ones."""

    @pytest.fixture
    def cluster_url(self, session_server):
        with one_node_cluster(session_server.name) as server:
            yield server.url

    def test_every_script_runs_under_a_hash_tagged_namespace(self, cluster_url):
        pool, keys = RedisPool(cluster_url), Keys("{app}")
        client = Client(namespace="{app}", pool=pool)
        item = {"class": "Nop", "args": [1], "queue": "default"}
        poller = poller_on(pool, keys=keys, client=client)

        assert client.push_tick("s", 4_000_000_000, [item], by="test").kind == "enqueued"
        assert not client.push_once([item], ["event#0"])[0].duplicate
        pool.call("ZADD", keys.schedule, 1, '{"class":"Nop","args":[],"queue":"mail"}', 2, "junk")
        assert poller.move_due(keys.schedule, 10.0) == 2
        pool.call("ZADD", keys.ledgers, 1, "over")
        assert poller.lead()
        assert pool.call("ZRANGE", keys.ledgers, 0, -1) == [b"s"]
        with EngineProcess(cluster_url, namespace="{app}") as process:
            process.keeper.current.valid_until = 0.0
            assert process.keeper.confirm(process.keeper.current)
            process.keeper.report(lambda news: None, ["low"])
            process.keeper._beat()
            assert process.keeper.watches
            dead = EngineProcess(cluster_url, namespace="{app}", identity="host:2:bbb")
            dead.keeper._register(dead.connect())
            pool.call("SET", keys.recovered("b" * 24), 2)
            pool.call("LPUSH", keys.queue("low"), b"low", b'{"jid":"%s"}' % (b"b" * 24))
            dead.claimer().claim(["low"], 2)
            beat = pool.call("HGET", keys.alive, dead.incarnation)
            assert Reaper(dead.connect(), keys).reap(dead.incarnation, beat) == 2
            assert pool.call("LLEN", keys.suspects("low")) == 1
            dead.keeper._register(dead.connect())
            pool.call("LPUSH", keys.queue("low"), b"low")
            dead.claimer().claim(["low"], 1)
            pool.call("SREM", keys.inflight, dead.incarnation)
            [found] = find_unregistered(dead.connect(), keys)
            assert Reaper(dead.connect(), keys).adopt(found.incarnation, found.tids).returned == 1
            claimer = process.claimer()
            chunk = claimer.claim(["default", "mail"], 5)
            assert chunk.size == 2
            assert process.settle(chunk, chunk.take(), keys.dead, 1.0, b"dead")
            acknowledge(process.connect(), keys, [(chunk, b"another")])
            assert put_back(claimer.connection, process.keys, chunk) == 1
            chunk = claimer.claim(["default", "mail"], 5)
            assert route(process.connect(), keys, chunk, chunk.waiting[0], "other")
            chunk = claimer.claim(["default", "mail"], 5)
            assert repush(
                process.connect(), keys, chunk, chunk.waiting[0], queue="mail", text=b"anew"
            )
        assert pool.call("LLEN", keys.queue("other")) == 1
        counter = SimpleNamespace(processed=2, failed=1)
        Stats([counter], keys, "host:1:aaa").flush(pool.connection(), 0.0)
        assert pool.call("GET", keys.stat("processed")) == b"2"
        client.pause_queue("default", for_s=0.001)
        [entry] = read_entries({b"queue:default": pool.call("HGET", keys.pauses, "queue:default")})
        wait_until(lambda: end_pause(pool.connection(), keys, entry) == 1)
        client.pause_class("Nop")
        assert client.resume_class("Nop")
        assert client.deploy_mark("v1").new
        pool.call("HSET", keys.cron_job("min"), "status", "enabled")
        assert set_cron_status(pool, keys, "min", "disabled")
        assert Schedules(client).save(Schedule("hourly", "Nop", every=3600)) == "created"
        assert place_due(client, by="test", horizon_s=7200).placed >= 2
        assert Schedules(client).skip_next("hourly")
        pool.call("ZADD", keys.task_reports, 0, "report")
        assert take_reports(pool.connection(), keys, most=1, for_s=60).texts == [b"report"]
        pool.call("ZADD", keys.flow_ends, 0, "end")
        assert take_ends(pool.connection(), keys, most=1, for_s=60) == [b"end"]
        effects = [Effect("add", [keys.task_reports], [0, "report"])]
        assert apply_ends(pool.connection(), keys, [(b"end", effects)]) == [[1]]
        with Batch(client=client) as batch:
            client.push({**item, "queue": "flow"})
        outbox = Outbox(EffectContext(keys, client), pool.connection())
        payload = json.loads(pool.call("RPOP", keys.queue("flow")))
        done = FlowEnd(
            flow={**payload["flow"], "next": {"id": "c", "n": 2, "steps": [{"job": payload}]}},
            jid=payload["jid"],
            job_class="Nop",
            outcome="done",
            at=1.0,
        )
        pool.call("ZADD", keys.flow_ends, 0, done.to_text())
        assert not outbox.look()
        assert batch.status().success
        batch.cancel()
        mark = RunMark(TickMark(schedule="s", at=60, overlap="skip"), "j1", "host:1:aaa")
        assert begin_run(pool.connection(), keys, mark, is_first=True).outcome == "run"
        assert end_run(pool.connection(), keys, mark, is_over=True)
        push_by_rules(client, pool.connection(), keys)
        use_limits(client)
        metrics = Metrics(keys, identity="host:1:aaa")
        metrics.record("Nop", 5.0, False)
        metrics.flush(pool.connection(), 1_700_000_000.0)
        operator = open_operator(client=client, by="ann")
        pool.call("ZADD", keys.dead, 5, b'{"class":"X","args":[],"jid":"a"}')
        assert DeadSet(operator).retry_all() >= 1
        assert Queue("default", operator).apply_all("move", to="low") >= 1
        assert Queue("low", operator).clear() >= 1
        record_audit(operator, "deploy", "all")
        move_and_give_back(pool, keys)
        assert all(key.startswith(b"{app}:") for key in pool.call("KEYS", "*"))
        poller.hand_over()
        rule = {"expression": "cron(* * * * ? *)", "jobs": [item], "origin": "template"}
        manifest = {"version": 1, "hash": "x", "schedules": {"A": rule}}
        assert publish_manifest(pool, keys, manifest, stack="shop", by="test").standing is None
        assert check_missed(pool, keys, client, by="test", now=time.time() + 900).new
        listen(cluster_url, pool, keys)
        pool.call("ZADD", keys.dead, 1, b"old")
        DeadTrim(keys, DeadBounds()).look(pool.connection())
        assert pool.call("ZCARD", keys.dead) == 0
        pool.close()

    def test_the_files_are_all_that_there_are(self):
        names = sorted(path.stem for path in scripts.FOLDER.glob("*.lua"))

        known = """
            acknowledge apply_ends audit_note beat begin_lock begin_run bury claim claim_hand_on cron_status deploy_mark due end_cleared end_pause end_run flow_scan flush_metrics flush_stats forget_batch forget_guards forget_ledgers give_back
            hold_export hold_schedule lead limit_bucket limit_concurrent limit_level limit_renew limit_window locks_due locks_looked mark_away operate operate_clear pause place promote publish_manifest push_debounced push_flow push_once push_throttled push_tick push_unique read_queue read_set reap_adopt reap_begin reap_end reap_inspect reap_return
            reap_suspect record_missed register release_export renew repush restore_chunk restore_state return_export save_schedule settle take_reports trim_dead unpause wake_check wake_forget wake_renew
        """
        assert names == known.split(), "a new script must also run in the test above"


def listen(url, pool, keys):
    """All scripts of processes that wait for jobs."""
    with EngineProcess(url, namespace="{app}") as process:
        listening = Listening(["woken"], keys, pool.raw_connection)
        offer = PendingClaim(process.claimer(), ["woken"], 1)
        taken = []
        waiting = threading.Thread(target=lambda: taken.append(listening.wait(offer)))
        waiting.start()
        wait_until(lambda: listening.state is State.LISTENING and not listening.is_alone)
        wait_until(lambda: pool.call("LLEN", keys.wake("woken")[0]), what="it has renewed its sign")
        pool.call("LPUSH", keys.queue("woken"), b"job")
        waiting.join(10)
        assert list(taken[0].waiting) == [b"job"]
        listening.close()


def push_by_rules(client, connection, keys):
    """All scripts of unique, debounced and throttled jobs."""
    item = {"class": "Ruled", "args": [1]}
    rules = {"unique": Unique(), "debounce": Debounce(wait_s=1), "throttle": Throttle(per_s=1)}
    jid = client.push({**item, "unique": rules["unique"]})
    assert client.push({**item, "unique": rules["unique"]}) is None
    for name in ("debounce", "throttle"):
        assert client.push({**item, name: rules[name]})
    [name] = connection.call("HKEYS", keys.locks)
    assert begin_lock(connection, keys, LockMark(name.decode(), "done"), jid) == ""
    connection.call("ZADD", keys.locks_look, 1, name)
    [lock] = find_due_locks(connection, keys, most=1)
    assert lock.jid == jid
    assert jid in scan_flow(connection, keys.queue("default"), 0, 10).jids
    assert looked_at(connection, keys, kept=[], gone=[lock], again_s=1) == 1
    effects = [Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [name, jid])]
    connection.call("ZADD", keys.flow_ends, 0, "end")
    assert apply_ends(connection, keys, [(b"end", effects)]) == [[0]]


def use_limits(client):
    """All scripts of limiters."""
    for made in (
        limiter.concurrent("a", 1, client=client),
        limiter.window("a", 1, per="day", client=client),
        limiter.bucket("a", 1, per="day", client=client),
        limiter.points("a", 1, refill_per_s=1e-5, client=client),
    ):
        with made.within_limit():
            assert made.status().used == pytest.approx(1, abs=0.01)
    pool, key = client.pool, client.keys.limit("concurrent", "a")
    assert not renew_lock(Lock(pool=pool, key=key, token="t", valid_s=1))


def move_and_give_back(pool, keys):
    """All scripts of export and restore."""
    place = Place(kind="queue", name="moved")
    state = StateSource(pool=pool, keys=keys, takes=True)
    taker = Taker(pool=pool, keys=keys, export="e1", file="f", state=state, is_all=True)
    pool.call("LPUSH", keys.queue("moved"), "a", "b")
    held = taker.hold(place, 1, 1)
    assert give_back(pool, keys, held) == 1
    held = taker.hold(place, 1, 1)
    assert Restorer(pool, keys, "e1").put(held.chunk) == 1
    taker.release(held)
    assert find_held(pool, keys) is None
    records = [
        Record("batch", "b", 4e9, [b"created_at", b"1", b"sealed", b"1"]),
        Record("jobs", "b", 4e9, [b"j", b"p"]),
        Record("announce", "b", 0.0),
        *(Record(kind, "x", 4e9, [b"1"]) for kind in ("chain", "result", "lock", "span")),
        *(Record(kind, "x", 4e9) for kind in ("replaced", "cancelled")),
        Record("progress", "x", 4e9, [b"c", b"7"]),
    ]
    assert put_records(pool, keys, records) == 0
    assert mark_away(pool, keys, "b", ["j"]) == 1
    rest = state.rest(is_all=True, with_spans=True)
    kinds = {record.kind for line in rest for record in line.records}
    assert kinds >= {"batch", "jobs", "announce", "result", "span"}
    state.forget()
    assert not pool.call("EXISTS", keys.batch("b"))
