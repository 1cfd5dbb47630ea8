"""The progress of iterable jobs in Redis, as Sidekiq writes and reads it (protocol §13).

A job is run here as a worker runs it, on the test's own thread and clock. Two processes, signals and
kills: test_processes.py.
"""

import asyncio
import json
import logging
import random
import threading
from types import SimpleNamespace

import pytest
from support.jobs import own_declarations
from support.proxy import Answer, InterceptingRedis, Lose
from support.vectors import FILES, of_kind, profile_of, put_state, recorded_state

from kiqbridge import Client, IterableJob, JobInterrupted, JobTimeout, PayloadError
from kiqbridge.client.current import CONTEXT, RUNTIME, Runtime
from kiqbridge.client.registry import definition_of
from kiqbridge.enumerators import sequence
from kiqbridge.errors import RedisRefused, Shutdown
from kiqbridge.features.iterable import iteration, state
from kiqbridge.store.redis_pool import RedisPool

JID = "17e7ab1e0000000000000001"
KEY = f"it-{JID}"
TTL_S = 30 * 86_400
CALLBACKS = ("on_start", "on_resume", "on_cancel", "on_stop", "on_complete")


class Worker:
    """Runs iterable jobs as a worker does; `stopping` and the time are the test's.

    Attributes:
        tenths: the time of `iteration.time`, in tenths of a second.
    """

    def __init__(self, url, redis, *, profile="7", namespace="", longest_s=None):
        pool = RedisPool(url)
        self.redis = redis
        self.stopping = False
        self.tenths = 0
        self.runtime = Runtime(
            client=Client(pool=pool, profile=profile, namespace=namespace),
            redis=pool,
            is_stopping=lambda: self.stopping,
            timeout_s=25.0,
            max_iteration_runtime_s=longest_s,
        )

    @property
    def clock(self):
        return SimpleNamespace(monotonic=lambda: self.tenths / 10, sleep=lambda _seconds: None)

    def run(self, declared, *args, jid=JID):
        """What became of it: "complete", "interrupted", or "given back" at a hard shutdown."""
        definition = definition_of(declared)
        context = CONTEXT.set(({"jid": jid} if jid else {}, "default"))
        runtime = RUNTIME.set(self.runtime)
        try:
            result = definition.perform_of(definition.instantiate(str(jid)))(*args)
            if asyncio.iscoroutine(result):
                asyncio.run(result)
        except JobInterrupted:
            return "interrupted"
        except Shutdown:
            return "given back"
        finally:
            RUNTIME.reset(runtime)
            CONTEXT.reset(context)
        return "complete"


@pytest.fixture
def make_worker(monkeypatch, redis_url, redis):
    made = []

    def make_worker(url=redis_url, **options):
        worker = Worker(url, redis, **options)
        made.append(worker)
        monkeypatch.setattr(iteration, "time", worker.clock)
        return worker

    yield make_worker
    for worker in made:
        worker.runtime.redis.close()


@pytest.fixture
def worker(make_worker):
    return make_worker()


class Trace:
    """What a job does, and what else happens at each item."""

    def __init__(self):
        self.said = []
        self.items = []
        self.at_item = lambda job, item: None


@pytest.fixture
def trace():
    return Trace()


@pytest.fixture
def count(trace):
    """Counts up to its argument, a tenth of a second each, and says what it does."""
    with own_declarations():

        class CountJob(IterableJob):
            def build_enumerator(self, n, pause=0.1, *, cursor):
                return sequence(range(n), cursor=cursor)

            def each_iteration(self, item, n, pause=0.1):
                trace.items.append(item)
                trace.at_item(self, item)

        for name in CALLBACKS:
            setattr(CountJob, name, lambda _self, name=name: trace.said.append(name))
        yield CountJob


def saying(trace, name):
    async def callback(_self):
        trace.said.append(name)

    return callback


@pytest.fixture(params=["plain", "async"])
def either(request, trace):
    """As `count`, once plain and once `async def`."""
    if request.param == "plain":
        yield request.getfixturevalue("count")
        return
    with own_declarations():

        class CountJob(IterableJob):
            async def build_enumerator(self, n, *, cursor):
                for number in range(cursor or 0, n):
                    await asyncio.sleep(0)
                    yield number, number

            async def each_iteration(self, item, n):
                await asyncio.sleep(0)
                trace.items.append(item)
                trace.at_item(self, item)

        for name in CALLBACKS:
            setattr(CountJob, name, saying(trace, name))
        yield CountJob


def ticking(worker, at=lambda job, item: None):
    """Each item takes a tenth of a second."""

    def at_item(job, item):
        worker.tenths += 1
        at(job, item)

    return at_item


class TestOneExecution:
    def test_it_begins_and_ends_and_leaves_nothing(self, worker, either, trace, redis):
        assert worker.run(either, 3) == "complete"

        assert trace.items == [0, 1, 2]
        assert trace.said == ["on_start", "on_stop", "on_complete"]
        assert redis.keys() == []

    def test_the_progress_is_saved_every_five_seconds(self, worker, either, trace, redis):
        seen = {}
        trace.at_item = ticking(worker, lambda _job, item: seen.update({item: redis.hgetall(KEY)}))

        worker.run(either, 120)

        assert seen[49] == {}
        assert seen[50] == seen[99] == {b"ex": b"1", b"c": b"50", b"rt": b"0"}
        assert seen[100] == {b"ex": b"1", b"c": b"100", b"rt": b"0"}

    def test_it_is_under_the_namespace(self, make_worker, count, trace, redis):
        worker = make_worker(namespace="app")
        trace.at_item = lambda _job, item: setattr(worker, "stopping", item == 1)

        assert worker.run(count, 5) == "interrupted"

        assert redis.keys() == [f"app:{KEY}".encode()]

    def test_nothing_to_iterate_leaves_the_progress_as_it_is(self, worker, trace, redis):
        redis.hset(KEY, mapping={"ex": 1, "c": "7", "rt": "1.5"})
        with own_declarations():

            class Empty(IterableJob):
                def build_enumerator(self, *, cursor):
                    trace.items.append(cursor)

                def each_iteration(self, item):
                    pass

            assert worker.run(Empty) == "complete"

        assert trace.items == [7]
        assert redis.hgetall(KEY) == {b"ex": b"1", b"c": b"7", b"rt": b"1.5"}

    def test_a_job_without_a_jid_is_done_at_once(self, worker, count, trace, redis, caplog):
        worker.stopping = True

        assert worker.run(count, 2, jid=None) == "complete"

        assert trace.items == [0, 1]
        assert "without a jid" in caplog.text
        assert redis.keys() == []

    def test_one_that_another_job_performs_inline_keeps_no_progress_and_is_not_interrupted(
        self, worker, count, trace, redis
    ):
        class Outer(IterableJob):
            def build_enumerator(self, *, cursor):
                return sequence("ab", cursor=cursor)

            def each_iteration(self, item):
                worker.stopping = True
                count.perform_inline(3)

        assert worker.run(Outer) == "interrupted"

        assert trace.items == [0, 1, 2]
        assert trace.said == ["on_start", "on_stop", "on_complete"]
        assert redis.hget(KEY, "c") == b"1"

    @pytest.mark.parametrize("seed", range(20))
    def test_interrupted_anywhere_each_item_is_processed_once_and_in_order(
        self, seed, worker, either, trace
    ):
        rng = random.Random(seed)
        trace.at_item = lambda _job, _item: setattr(worker, "stopping", rng.random() < 0.3)

        ends = [worker.run(either, 40)]
        while ends[-1] == "interrupted":
            worker.stopping = rng.random() < 0.1
            ends.append(worker.run(either, 40))

        assert trace.items == list(range(40))
        assert trace.said.count("on_resume") == len(ends) - 1 > 1
        assert ends[-1] == "complete"

    def test_a_long_iteration_is_told(self, worker, count, trace, caplog):
        trace.at_item = lambda _job, item: setattr(worker, "tenths", worker.tenths + 251 * item)

        worker.run(count, 2)

        assert [record.levelname for record in caplog.records if "longer than" in record.msg] == [
            "WARNING"
        ]
        assert "at cursor 1 took 25.1 s, longer than the 25.0 s" in caplog.text


class TestInterruption:
    def test_a_worker_that_stops_saves_and_the_next_goes_on_with_the_very_item(
        self, worker, either, trace, redis
    ):
        def stop(_job, item):
            worker.stopping = item == 7

        trace.at_item = ticking(worker, stop)

        assert worker.run(either, 20) == "interrupted"

        assert trace.items == list(range(8))
        assert trace.said == ["on_start", "on_stop"]
        assert redis.hgetall(KEY) == {b"ex": b"1", b"c": b"8", b"rt": b"0.8"}
        assert TTL_S - 120 < redis.ttl(KEY) <= TTL_S

        worker.stopping = False
        trace.at_item = ticking(worker)
        assert worker.run(either, 20) == "complete"
        assert trace.items == list(range(20))
        assert trace.said[2:] == ["on_resume", "on_stop", "on_complete"]
        assert redis.keys() == []

    def test_the_time_of_all_executions_is_added_up(self, worker, count, trace, redis):
        redis.hset(KEY, mapping={"ex": 4, "c": "2", "rt": "10.25"})
        trace.at_item = ticking(worker, lambda _j, item: setattr(worker, "stopping", item == 4))

        worker.run(count, 20)

        assert redis.hgetall(KEY) == {b"ex": b"5", b"c": b"5", b"rt": b"10.55"}

    def test_a_worker_that_stops_before_the_first_item_processes_none(self, worker, either, trace):
        worker.stopping = True

        assert worker.run(either, 3) == "interrupted"
        assert trace.items == []

    def test_after_the_longest_runtime_it_makes_room(self, make_worker, count, trace):
        worker = make_worker(longest_s=1.0)
        trace.at_item = ticking(worker)

        assert worker.run(count, 30) == "interrupted"
        assert trace.items == list(range(11))  # longer than 1.0 s, not just as long
        assert worker.run(count, 30) == "interrupted"
        assert worker.run(count, 30) == "complete"
        assert trace.items == list(range(30))

    def test_the_class_own_runtime_counts_before_the_setting(self, make_worker, count, trace):
        worker = make_worker(longest_s=1.0)
        count.max_iteration_runtime_s = 0.35
        trace.at_item = ticking(worker)

        assert worker.run(count, 30) == "interrupted"
        assert trace.items == [0, 1, 2, 3]

    def test_an_enumerator_slower_than_the_longest_runtime_still_advances(self, make_worker, trace):
        worker = make_worker(longest_s=1.0)
        with own_declarations():

            class Slow(IterableJob):
                def build_enumerator(self, *, cursor):
                    for number in range(cursor or 0, 3):
                        worker.tenths += 50
                        yield number, number

                def each_iteration(self, item):
                    trace.items.append(item)

            ends = [worker.run(Slow) for _ in range(3)]

        assert ends == ["interrupted", "interrupted", "complete"]
        assert trace.items == [0, 1, 2]

    def test_a_job_may_abort_itself_for_good(self, worker, either, trace, redis):
        redis.hset(KEY, mapping={"ex": 1, "c": "1", "rt": "1.5"})
        trace.at_item = lambda job, item: job.abort() if item == 2 else None

        assert worker.run(either, 9) == "complete"
        assert trace.items == [1, 2]
        assert trace.said == ["on_resume", "on_stop", "on_complete"]
        assert redis.keys() == []


class TestErrors:
    def test_the_progress_is_saved_before_an_error_is_passed_on(self, worker, either, trace, redis):
        def fail(_job, item):
            if item == 3 and len(trace.items) == 4:
                raise LookupError("item 3")

        trace.at_item = fail

        with pytest.raises(LookupError, match="item 3"):
            worker.run(either, 6)

        assert redis.hgetall(KEY) == {b"ex": b"1", b"c": b"3", b"rt": b"0"}
        assert trace.said == ["on_start", "on_stop"]
        assert worker.run(either, 6) == "complete"
        assert trace.items == [0, 1, 2, 3, 3, 4, 5]
        assert trace.said[2:] == ["on_resume", "on_stop", "on_complete"]

    def test_a_start_that_fails_is_a_start_again(self, worker, count, trace, redis):
        failing = [True]

        def on_start(_job):
            trace.said.append("on_start")
            if failing.pop():
                raise LookupError

        count.on_start = on_start
        with pytest.raises(LookupError):
            worker.run(count, 1)
        assert redis.keys() == []
        failing.append(False)

        worker.run(count, 1)

        assert trace.said == ["on_start", "on_start", "on_stop", "on_complete"]

    def test_a_time_limit_is_an_error_too(self, worker, count, trace, redis):
        def limit(_job, item):
            if item == 2:
                raise JobTimeout("took too long")

        trace.at_item = limit

        with pytest.raises(JobTimeout):
            worker.run(count, 5)
        assert redis.hget(KEY, "c") == b"2"

    def test_one_of_a_loop_too(self, worker, trace, redis):
        with own_declarations():

            class Slow(IterableJob):
                def build_enumerator(self, *, cursor):
                    return sequence("abc", cursor=cursor)

                async def each_iteration(self, item):
                    trace.items.append(item)
                    if item == "b":
                        limits[0].reschedule(0)
                        await asyncio.sleep(60)

                def on_stop(self):
                    trace.said.append("on_stop")

            limits = []

            async def limited():
                RUNTIME.set(worker.runtime)
                CONTEXT.set(({"jid": JID}, "default"))
                definition = definition_of(Slow)
                async with asyncio.timeout(None) as limit:
                    limits.append(limit)
                    await definition.perform_of(definition.instantiate(JID))()

            with pytest.raises(TimeoutError):
                asyncio.run(limited())

        assert trace.items == ["a", "b"]
        assert trace.said == ["on_stop"]
        assert redis.hget(KEY, "c") == b"1"

    def test_what_was_given_back_at_a_hard_shutdown_is_left_to_who_has_it_now(
        self, worker, count, trace, redis
    ):
        def cut(_job, item):
            if item == 2:
                redis.hset(
                    KEY, mapping={"ex": 2, "c": "9", "rt": "0"}
                )  # by the one that has it now
                raise Shutdown

        trace.at_item = cut

        assert worker.run(count, 5) == "given back"
        assert redis.hget(KEY, "c") == b"9"
        assert trace.said == ["on_start"]

    def test_a_cancelled_task_of_a_worker_that_stops_writes_nothing(self, worker, trace, redis):
        with own_declarations():

            class Hanging(IterableJob):
                async def build_enumerator(self, *, cursor):
                    yield 1, 1

                async def each_iteration(self, item):
                    worker.stopping = True
                    raise asyncio.CancelledError

                def on_stop(self):
                    trace.said.append("on_stop")

            with pytest.raises(asyncio.CancelledError):
                worker.run(Hanging)

        assert redis.keys() == []
        assert trace.said == []

    def test_an_on_complete_that_fails_costs_no_more_than_the_last_item(
        self, worker, count, trace, redis
    ):
        def on_complete(_job):
            raise LookupError

        count.on_complete = on_complete

        with pytest.raises(LookupError):
            worker.run(count, 5)
        assert redis.hget(KEY, "c") == b"4"

    @pytest.mark.parametrize("field", ["ex", "c", "rt"])
    def test_a_progress_that_nobody_can_have_written_is_named(self, worker, count, redis, field):
        redis.hset(KEY, field, "{")

        with pytest.raises(PayloadError, match=f"{KEY}: .* delete the key to begin anew"):
            worker.run(count, 1)

    def test_a_key_of_another_type_fails_the_job(self, worker, count, redis):
        redis.set(KEY, "x")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            worker.run(count, 1)

    @pytest.mark.parametrize("cursor", [2**64, "x", None, [1, {"a": None}], 1.5])
    def test_any_json_value_is_a_cursor(self, worker, redis, cursor):
        given, given_cursor = [], cursor
        with own_declarations():

            class Once(IterableJob):
                def build_enumerator(self, *, cursor):
                    given.append(cursor)
                    return iter([("item", given_cursor)])

                def each_iteration(self, item):
                    self.abort(completed=False)

            worker.run(Once)
            worker.run(Once)

        assert given == [None, cursor]
        assert json.loads(redis.hget(KEY, "c")) == cursor
        assert redis.hget(KEY, "ex") == b"2"


class TestWhenRedisIsAway:
    def test_the_iteration_waits_and_goes_on(self, make_worker, server, either, trace, caplog):
        away = []
        with InterceptingRedis(server.port) as proxy:
            worker = make_worker(proxy.url)
            refusal = Answer(b"-MASTERDOWN Link with MASTER is down\r\n")
            proxy.decide = lambda _command: away.pop() if away else None
            # As many as two attempts need: the five of one flush, and a part of the next.
            trace.at_item = ticking(
                worker, lambda _job, item: away.extend([refusal] * 9 if item == 49 else [])
            )

            assert worker.run(either, 60) == "complete"

        assert trace.items == list(range(60))
        assert caplog.text.count("the iteration waits for Redis") == 1

    def test_a_lost_reply_is_asked_for_again(self, make_worker, server, count, trace, redis):
        left = [Lose()]
        with InterceptingRedis(server.port) as proxy:
            worker = make_worker(proxy.url)
            proxy.decide = lambda words: left.pop() if left and words[0] == b"EXEC" else None
            trace.at_item = ticking(worker, lambda _j, item: setattr(worker, "stopping", item == 4))

            assert worker.run(count, 9) == "interrupted"

        assert redis.hget(KEY, "c") == b"5"

    def test_other_jobs_of_the_loop_go_on_meanwhile(self, worker, trace, redis, monkeypatch):
        released = threading.Event()
        monkeypatch.setattr(
            state.IterationState, "is_cancelled", lambda _self: not released.wait(10)
        )
        with own_declarations():

            class Work(IterableJob):
                def build_enumerator(self, *, cursor):
                    return sequence("ab", cursor=cursor)

                async def each_iteration(self, item):
                    trace.items.append(item)

            async def beside():
                released.set()  # could not happen while the loop waits for Redis

            async def both():
                job = definition_of(Work).instantiate(JID)
                RUNTIME.set(worker.runtime)
                CONTEXT.set(({"jid": JID}, "default"))
                await asyncio.gather(definition_of(Work).perform_of(job)(), beside())

            asyncio.run(both())

        assert trace.items == ["a", "b"]


class TestCancelling:
    def test_one_that_waits_is_complete_at_once_when_it_runs(self, worker, either, trace, redis):
        worker.runtime.client.cancel(JID)

        assert worker.run(either, 9) == "complete"

        assert trace.items == []
        assert trace.said == ["on_start", "on_cancel", "on_stop", "on_complete"]
        assert redis.keys() == []

    def test_one_that_waits_to_go_on_too(self, worker, either, trace, redis, caplog):
        redis.hset(KEY, mapping={"ex": 1, "c": "5", "rt": "1.5"})
        redis.hsetnx(KEY, "cancelled", 1_700_000_000)
        caplog.set_level(logging.INFO)

        assert worker.run(either, 9) == "complete"
        assert "cancelled at cursor 5" in caplog.text

        assert trace.items == []
        assert trace.said == ["on_resume", "on_cancel", "on_stop", "on_complete"]

    def test_one_that_runs_notices_at_the_next_flush(self, worker, either, trace, redis):
        def cancel(job, item):
            assert not job.cancelled
            if item == 20:
                redis.hsetnx(KEY, "cancelled", 1_700_000_000)
                redis.expire(KEY, TTL_S)

        trace.at_item = ticking(worker, cancel)

        assert worker.run(either, 200) == "complete"

        assert trace.items == list(range(50))
        assert trace.said == ["on_start", "on_cancel", "on_stop", "on_complete"]
        assert redis.keys() == []

    def test_one_that_is_interrupted_at_that_moment_ends_too(self, worker, either, trace, redis):
        def cancel_and_stop(_job, item):
            if item == 3:
                worker.runtime.client.cancel(JID)
                worker.stopping = True

        trace.at_item = cancel_and_stop

        assert worker.run(either, 200) == "complete"
        assert trace.items == [0, 1, 2, 3]

    def test_the_job_can_read_it(self, worker, count, trace):
        def on_stop(job):
            trace.said.append(job.cancelled)

        count.on_stop = on_stop
        worker.runtime.client.cancel(JID)

        worker.run(count, 3)

        assert trace.said == ["on_start", "on_cancel", True, "on_complete"]

    @pytest.mark.parametrize("case", of_kind("early_cancel"), ids="-".join)
    def test_a_hash_with_the_request_alone_is_read_as_nothing_done(
        self, case, make_worker, count, trace, redis
    ):
        """Ruby's workers fail here with a TypeError and try again, in vain (§13.5)."""
        file, name = case
        [recorded] = [key for key in FILES[file][name]["keys"] if key["key"].startswith("it-")]
        put_state(redis, [recorded])
        worker = make_worker(profile=profile_of(file))

        assert worker.run(count, 200, 0.1, jid=recorded["key"].removeprefix("it-")) == "complete"

        assert trace.said == ["on_start", "on_cancel", "on_stop", "on_complete"]
        assert redis.keys() == []


RUNTIME_TEXT = "5.126300752000134"


class TestTheRecordedCommands:
    """Item after item takes 0.1 s in the recording, and here: so the very cursors are the same."""

    @pytest.mark.parametrize("case", of_kind("iteration"), ids="-".join)
    def test_an_iterable_job_sends_the_recorded_commands(
        self, case, make_worker, server, count, trace
    ):
        file, name = case
        operation = FILES[file][name]
        with InterceptingRedis(server.port) as proxy:
            worker = make_worker(proxy.url, profile=profile_of(file))
            at_item, theirs = SCENES[name](worker, file)
            trace.at_item = ticking(worker, at_item)

            end = worker.run(count, 200, 0.1)

            ours = [[word.decode() for word in words] for words in proxy.commands]
        assert [masked(words) for words in ours] == [
            masked(words) for words in (*theirs, *commands_of(operation))
        ]
        assert end == ENDS[name]
        if "trace" in operation:
            theirs = [each.split("] ")[1] for each in operation["trace"]]
            callbacks = [said for said in theirs if said != "item"]
            if name == "iterable_cancelled" and file == "worker-7.3.10":
                callbacks.insert(1, "on_cancel")  # 7.3 does not know it: called here all the same
            assert trace.said == [*BEFORE[name], *callbacks]
        if name == "iterable_interrupted":
            [state] = [key for key in operation["keys"] if key["key"] == KEY]
            _, fields = recorded_state([state])[KEY]
            ours = worker.redis.hgetall(KEY)
            assert ours | {b"rt": RUNTIME_TEXT.encode()} == fields | {b"rt": RUNTIME_TEXT.encode()}
            assert float(ours[b"rt"]) == pytest.approx(float(fields[b"rt"]), abs=0.1)
            assert trace.items[-3:] == [48, 49, 50]
            assert worker.redis.ttl(KEY) == pytest.approx(state["ttl"], abs=2)


START = [["hgetall", KEY], ["hget", KEY, "cancelled"]]


def run_and_flush(_worker, _file):
    """Recorded until the first flush: here it is cut off then."""

    def cut(_job, item):
        if item == 50:
            raise Shutdown

    return cut, []


def interrupted(worker, file):
    flush = commands_of(FILES[file]["iterable_run_and_flush"])
    return lambda _job, item: setattr(worker, "stopping", item == 50), flush


def cancelled(worker, file):
    [state] = [key for key in FILES[file]["iterable_interrupted"]["keys"] if key["key"] == KEY]
    put_state(worker.redis, [state])
    return lambda _job, _item: worker.redis.hsetnx(KEY, "cancelled", 1), START


SCENES = {
    "iterable_run_and_flush": run_and_flush,
    "iterable_interrupted": interrupted,
    "iterable_cancelled": cancelled,
}
BEFORE = {"iterable_interrupted": ["on_start"], "iterable_cancelled": []}
"""Callbacks before the recording began."""

ENDS = {
    "iterable_run_and_flush": "given back",
    "iterable_interrupted": "interrupted",
    "iterable_cancelled": "complete",
}


def commands_of(operation):
    """The recorded commands about the progress."""
    words = [[each["cmd"][0].lower(), *each["cmd"][1:]] for each in operation["commands"]]
    return [each for each in words if each[0] in {"multi", "exec"} or each[1] == KEY]


def masked(words):
    """With the runtime of a finished execution masked, and keywords in one case."""
    words = [words[0].lower(), *words[1:]]
    if words[0] == "hset" and words[-1] != "0":
        assert float(words[-1]) == pytest.approx(5.1, abs=0.1)
        words[-1] = RUNTIME_TEXT
    return [word.lower() if word == "NX" else word for word in words]
