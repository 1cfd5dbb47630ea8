"""`async def` jobs: many at once on one loop, each acknowledged by itself, none lost at a shutdown."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import pytest
from support.engine import in_flight
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.client.current import CONTEXT, interrupted
from kiqbridge.client.job import job
from kiqbridge.engine.perform.event_loop import EventLoop
from kiqbridge.errors import ConfigError

pytestmark = pytest.mark.any_server


class Jobs:
    """Declared jobs whose course the test decides."""

    def __init__(self):
        self.running = 0
        self.peak = 0
        self.begun = []
        self.done = []
        self.cancelled = []
        self.may_end = False

        @job(name="Gated")
        async def gated(name):
            self.begun.append(name)
            self.running += 1
            self.peak = max(self.peak, self.running)
            try:
                while not self.may_end:  # noqa: ASYNC110 - a test sets it, on another thread
                    await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            finally:
                self.running -= 1
            self.done.append(name)

        @job(name="Quick")
        async def quick(name):
            await asyncio.sleep(0)
            self.done.append(name)

        @job(name="Plain")
        def plain(name):
            self.done.append(name)

        @job(name="Failing", retry=3)
        async def failing(name):
            await asyncio.sleep(0)
            raise ValueError(name)

        @job(name="TooSlow", timeout_s=0.05)
        async def too_slow():
            await asyncio.sleep(60)

        @job(name="Cancelling")
        async def cancelling():
            raise asyncio.CancelledError


@pytest.fixture
def jobs():
    with own_declarations():
        yield Jobs()


@pytest.fixture
def working(jobs, setup, redis_url):
    @contextmanager
    def working(**settings):
        with launched(redis_url, setup, **{"async_concurrency": "500", **settings}) as launcher:
            try:
                yield launcher
            finally:
                jobs.may_end = True

    return working


def push(client, name, count, **attributes):
    return client.push_bulk(
        {"class": name, "args": [[number] for number in range(count)], **attributes}
    )


class TestBlocked:
    def test_a_job_that_blocks_the_loop_is_logged_with_its_stack_once_for_its_class(
        self, working, jobs, client, caplog
    ):
        go_on, ended = threading.Event(), []

        @job(name="Blocks")
        async def blocks(for_s):
            go_on.wait(for_s)
            ended.append(for_s)

        def said(text):
            return [each.getMessage() for each in caplog.records if text in each.getMessage()]

        push(client, "Gated", 3)
        with working(loop_blocked_s="0.1"):
            wait_until(lambda: jobs.running == 3)
            jid = client.push({"class": "Blocks", "args": [60]})
            wait_until(lambda: said("has been blocked"))
            go_on.set()
            wait_until(lambda: said("continues, after"))
            go_on.clear()
            client.push({"class": "Blocks", "args": [0.5]})
            wait_until(lambda: ended == [60, 0.5])

        [line] = said("has been blocked")
        assert f"by job {jid} of class Blocks: its 4 running jobs stand still" in line
        assert "in blocks" in line
        assert "go_on.wait(for_s)" in line

    def test_with_0_nobody_watches(self, working, jobs, client):
        push(client, "Gated", 1)
        with working(loop_blocked_s="0"):
            wait_until(lambda: jobs.running == 1)
            assert not [each for each in threading.enumerate() if "loop-watch" in each.name]


class TestRunning:
    def test_hundreds_run_at_once_on_two_threads(self, working, jobs, client, redis):
        push(client, "Gated", 300)

        with working():
            wait_until(lambda: jobs.running == 300, what="all at once")
            jobs.may_end = True
            wait_until(lambda: len(jobs.done) == 300 and not in_flight(redis))

        assert redis.get("stat:processed") == b"300"
        assert sorted(jobs.done) == list(range(300))

    def test_no_more_than_the_setting_run_at_once(self, working, jobs, client, redis):
        push(client, "Gated", 40)

        with working(async_concurrency="5"):
            wait_until(lambda: jobs.running == 5)
            wait_until(lambda: redis.llen("queue:default") + len(in_flight(redis)) == 40)
            jobs.may_end = True
            wait_until(lambda: len(jobs.done) == 40)

        assert jobs.peak == 5

    def test_each_is_acknowledged_by_itself_and_plain_jobs_between_them_too(
        self, working, jobs, client, redis
    ):
        client.push_bulk({"class": "Gated", "args": [["held"]]})
        for number in range(60):
            client.push({"class": ("Quick", "Plain")[number % 2], "args": [number]})

        with working():
            wait_until(lambda: len(jobs.done) == 60)
            wait_until(
                lambda: len(in_flight(redis)) == 1, what="the plain ones acknowledged as well"
            )
            assert b'"Gated"' in in_flight(redis)[0]
            jobs.may_end = True
            wait_until(lambda: not in_flight(redis))

        assert redis.get("stat:processed") == b"61"

    def test_each_sees_its_own_context(self, working, client):
        seen = {}

        @job(name="Looks")
        async def looks(number):
            await asyncio.sleep(0.01)
            payload, queue = CONTEXT.get()
            seen[number] = (payload["args"], queue, interrupted())

        push(client, "Looks", 50)
        with working():
            wait_until(lambda: len(seen) == 50)

        assert seen == {number: ([number], "default", False) for number in range(50)}

    def test_ruby_sees_them_at_work(self, working, jobs, client, redis):
        push(client, "Gated", 20)

        with working() as launcher:
            identity = launcher.identity
            wait_until(lambda: redis.hget(identity, "busy") == b"20")
            work = redis.hgetall(f"{identity}:work")

            assert len(work) == 20
            assert {json.loads(text)["queue"] for text in work.values()} == {"default"}
            assert redis.hget(identity, "concurrency") == b"2"


class TestFailing:
    def test_many_failures_are_tried_again_each_once(self, working, client, setup, redis):
        told = []
        setup.error_handler(lambda error, _context: told.append(str(error)))
        jids = push(client, "Failing", 300)

        with working(look_ahead="50"):
            wait_until(lambda: len(told) == 300)

            kept = [json.loads(text) for text in redis.zrange("retry", 0, -1)]
            assert not in_flight(redis)

        assert sorted(payload["jid"] for payload in kept) == sorted(jids)
        assert {(each["error_class"], each["retry_count"]) for each in kept} == {("ValueError", 0)}
        assert sorted(map(int, told)) == list(range(300))
        assert redis.get("stat:failed") == b"300"

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            (
                "TooSlow",
                ("kiqbridge.errors.JobTimeout", "took longer than its timeout_s of 0.05 s"),
            ),
            ("Cancelling", ("asyncio.exceptions.CancelledError", "")),
        ],
    )
    def test_a_job_that_is_or_was_cancelled_has_failed(self, working, client, redis, name, error):
        client.push({"class": name, "args": []})

        with working():
            wait_until(lambda: redis.zcard("retry") == 1)

        [kept] = [json.loads(text) for text in redis.zrange("retry", 0, -1)]
        assert (kept["error_class"], kept["error_message"]) == error

    def test_handlers_are_told_once_it_is_written(self, working, client, setup, redis):
        told = []
        setup.error_handler(
            lambda error, context: told.append((str(error), context["job"]["args"]))
        )
        setup.death_handler(lambda payload, _error: told.append(("dead", redis.zcard("dead"))))
        client.push({"class": "Failing", "args": ["x"], "retry": 0})

        with working():
            wait_until(lambda: len(told) == 2)

        assert told == [("dead", 1), ("x", ["x"])]

    def test_a_slow_error_handler_holds_up_no_acknowledgement(
        self, working, jobs, client, setup, redis
    ):
        told = []
        may_end = threading.Event()

        @setup.error_handler
        def slow(error, _context):
            may_end.wait(30)
            told.append(str(error))

        push(client, "Failing", 3)
        with working():
            wait_until(lambda: redis.zcard("retry") == 3)
            push(client, "Quick", 200)
            try:
                wait_until(lambda: len(jobs.done) == 200)
                wait_until(lambda: not in_flight(redis), what="all acknowledged meanwhile")
                assert told == []
            finally:
                may_end.set()

        assert sorted(told) == ["0", "1", "2"]  # each once: the stop has waited for them


class TestAnErrorThatEndsTheLoop:
    """It is raised between two of its steps, as by another thread: what it was about to do is lost."""

    def test_a_job_whose_task_never_runs_is_given_back(self, working, jobs, client, monkeypatch):
        perform, lost = EventLoop._perform, []

        async def lose_first(loop, held):
            if not lost:
                lost.append(held)
                await asyncio.Event().wait()
            await perform(loop, held)

        monkeypatch.setattr(EventLoop, "_perform", lose_first)
        with working():
            push(client, "Quick", 3)
            wait_until(lambda: sorted(jobs.done) == [0, 1, 2])

    def test_a_job_with_two_tasks_runs_once(self, working, jobs, client, monkeypatch):
        begin = EventLoop._begin

        def begin_twice(loop):
            held = loop._inbox[0] if loop._inbox else None
            begin(loop)
            if held is not None:
                loop.loop.create_task(loop._perform(held), context=loop._context.copy())

        monkeypatch.setattr(EventLoop, "_begin", begin_twice)
        with working() as launcher:
            push(client, "Quick", 3)
            wait_until(lambda: len(jobs.done) == 3)
            wait_until(lambda: launcher.parts.capsules[0].loop.count == 0)
        assert sorted(jobs.done) == [0, 1, 2]

    def test_a_job_of_which_the_loop_was_not_notified_begins_with_its_next_ping(
        self, working, jobs, client
    ):
        with working() as launcher:
            loop = launcher.parts.capsules[0].loop
            loop._woken = True  # as if `take` had been cut short
            push(client, "Quick", 1)
            # The worker looks at its threads each second: its own ping may come first.
            wait_until(lambda: loop.count == 1 or jobs.done)
            loop.ping()
            wait_until(lambda: jobs.done == [0])


class TestEnding:
    def test_those_that_finish_in_time_are_not_given_back(self, working, jobs, client, redis):
        push(client, "Gated", 20)

        with working() as launcher:
            wait_until(lambda: jobs.running == 20)
            ending = threading.Thread(target=launcher.stop)
            ending.start()
            wait_until(lambda: redis.hget(launcher.identity, "quiet") == b"true")
            jobs.may_end = True
            ending.join()

        assert len(jobs.done) == 20
        assert not redis.exists("queue:default")
        assert not redis.keys("kb:inflight*")
        assert redis.get("stat:processed") == b"20"

    def test_at_the_deadline_they_are_given_back_unchanged_and_cancelled(
        self, working, jobs, client, redis
    ):
        push(client, "Gated", 20)
        texts = sorted(redis.lrange("queue:default", 0, -1))

        with working(timeout_s="0.2") as launcher:
            wait_until(lambda: jobs.running == 20)
            began = time.monotonic()
            launcher.stop()
            took = time.monotonic() - began

        assert sorted(redis.lrange("queue:default", 0, -1)) == texts
        assert sorted(jobs.cancelled) == list(range(20))
        assert jobs.done == []
        assert not redis.keys("kb:*inflight*")
        assert took < 5

    def test_a_thread_that_waits_for_room_gives_its_job_back(self, working, jobs, client, redis):
        push(client, "Gated", 4)

        with working(timeout_s="0.2", async_concurrency="1") as launcher:
            wait_until(lambda: jobs.running == 1)
            launcher.stop()

        assert redis.llen("queue:default") == 4
        assert jobs.begun == jobs.cancelled
        assert len(jobs.begun) == 1


class TestSurroundings:
    def test_plain_middleware_around_many_jobs_never_blocks_them(
        self, working, jobs, client, setup, redis
    ):
        def plain():
            def middleware(_job, _payload, _queue, call_next):
                return call_next()

            return middleware

        async def between(_job, _payload, _queue, call_next):
            await asyncio.sleep(0)
            return await call_next()

        setup.middleware.add(plain())
        setup.middleware.add(plain())
        setup.middleware.add(between)
        setup.middleware.add(plain())
        push(client, "Quick", 400)

        with working(async_concurrency="20"):
            wait_until(lambda: len(jobs.done) == 400, 60)
            wait_until(lambda: not in_flight(redis))

        assert sorted(jobs.done) == list(range(400))

    def test_a_default_executor_that_a_job_has_filled_delays_no_other_job(
        self, working, jobs, client, redis
    ):
        may_end, may_go_on = threading.Event(), threading.Event()

        @job(name="Fills")
        async def fills():
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(1))
            loop.run_in_executor(None, may_end.wait, 60)
            may_go_on.wait(30)  # meanwhile nothing begins on this loop

        client.push({"class": "Fills", "args": []})
        with working() as launcher:
            wait_until(lambda: in_flight(redis))
            push(client, "Quick", 1)
            wait_until(lambda: len(launcher.parts.running_jobs()) == 2, what="both have been taken")
            launcher.parts.keeper.current.valid_until = (
                0.0  # in doubt: it must be confirmed off the loop
            )
            may_go_on.set()
            try:
                wait_until(lambda: jobs.done == [0])
            finally:
                may_end.set()

    def test_middleware_of_both_kinds_and_resources_of_the_loop(
        self, working, client, setup, jobs, redis
    ):
        heard = []

        @setup.lifespan
        @asynccontextmanager
        async def pool():
            heard.append("open")
            yield asyncio.get_running_loop()
            heard.append("close")

        async def asynchronous(_job, _payload, _queue, call_next):
            assert pool.value is asyncio.get_running_loop()
            return await call_next()

        def plain(_job, payload, _queue, call_next):
            heard.append(payload["class"])
            return call_next()

        setup.middleware.add(asynchronous)
        setup.middleware.add(plain)
        client.push({"class": "Quick", "args": [1]})
        client.push({"class": "Plain", "args": [2]})

        with working():
            wait_until(lambda: sorted(jobs.done) == [1, 2])
            wait_until(lambda: not in_flight(redis))

        assert (heard[0], heard[-1]) == ("open", "close")
        assert sorted(heard[1:-1]) == ["Plain", "Quick"]
        assert not redis.exists("retry")

    def test_a_resource_that_cannot_be_opened_ends_the_start(self, working, setup, redis):
        @setup.lifespan
        @asynccontextmanager
        async def pool():
            raise OSError("no database")
            yield

        with pytest.raises(ConfigError, match="the start failed: OSError: no database"), working():
            pass

        assert not redis.exists("kb:inflight", "processes")

    def test_what_was_opened_before_a_failing_start_is_closed(self, working, setup, redis):
        heard = []

        @setup.lifespan
        @asynccontextmanager
        async def pool():
            heard.append("open")
            yield
            heard.append("close")

        @setup.on("startup")
        def check():
            raise LookupError("no table")

        with pytest.raises(ConfigError, match="the start failed: LookupError: no table"), working():
            pass

        assert heard == ["open", "close"]
