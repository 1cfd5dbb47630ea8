"""`kiqbridge.testing.fake`: jobs are recorded in memory, and performed by a worker's own parts."""

import asyncio
import contextlib
import threading
import time

import pytest

from kiqbridge import (
    Client,
    ConfigError,
    Job,
    JobNotFound,
    JobTimeout,
    PayloadError,
    configure,
    job,
)
from kiqbridge import server as server_
from kiqbridge.middleware import Chain
from kiqbridge.testing import EndlessJobs, NotInMemory, drain, fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        yield jobs


@pytest.fixture
def server():
    """The one that `-r` code fills, as it was before afterwards."""
    before = (server_.middleware, server_.client_middleware, server_.resources, server_.capsules)
    handlers = server_.error_handlers, server_.death_handlers
    server_.middleware, server_.client_middleware = Chain(), Chain()
    server_.resources, server_.capsules = [], {}
    server_.error_handlers, server_.death_handlers = [], []
    yield server_
    server_.middleware, server_.client_middleware, server_.resources, server_.capsules = before
    server_.error_handlers, server_.death_handlers = handlers


@pytest.fixture
def echo(seen):
    @job(name="Echo", queue="low")
    def echo(*args):
        seen.append(args)

    return echo


class TestRecording:
    def test_a_job_is_recorded_as_its_text_would_be_read(self, jobs, echo):
        jid = echo.perform_async([1, "two"], {"three": 3.0})

        [recorded] = jobs.jobs
        assert (recorded.jid, recorded.job_class, recorded.queue) == (jid, "Echo", "low")
        assert recorded.args == [[1, "two"], {"three": 3.0}]
        assert recorded.payload["enqueued_at"] >= recorded.created_at
        assert recorded.at is None
        assert jobs.queues == {"low": [recorded]}
        assert str(recorded) == f'Echo [[1,"two"],{{"three":3.0}}] in queue low (jid {jid})'

    def test_it_is_recorded_whichever_client_thread_or_coroutine_pushes_it(self, jobs, echo):
        async def test():
            await echo.aperform_async(4)
            await echo.aperform_in(60, 8)
            await echo.aperform_bulk([[5], [6]])

        echo.perform_async(1)
        Client().push({"class": "HardJob", "args": [2]})
        Client("redis://nowhere.invalid:1/0", namespace="mine").push({"class": echo, "args": [3]})
        configure("redis://nowhere.invalid:1/0", namespace="other", profile="auto")
        asyncio.run(test())
        thread = threading.Thread(target=echo.perform_async, args=(7,))
        thread.start()
        thread.join()
        assert [each.args for each in jobs.jobs] == [[number] for number in range(1, 9)]

    def test_many_jobs_of_one_call_are_recorded_in_their_order(self, jobs, echo):
        jids = echo.perform_bulk([[number] for number in range(5)], batch_size=2)

        assert [each.jid for each in jobs.queues["low"]] == jids

    def test_a_job_for_later_is_recorded_with_its_time(self, jobs, echo):
        before = time.time()
        echo.perform_in(60, 1)
        echo.perform_at(before + 30, 2)

        first, second = jobs.scheduled
        assert (first.args, second.args) == ([2], [1])
        assert first.at == before + 30
        assert before + 60 <= second.at <= time.time() + 60
        assert "enqueued_at" not in second.payload

    def test_client_middleware_changes_and_stops_pushes(self, jobs, echo):
        def middleware(_declared, payload, _queue, call_next):
            payload["locale"] = "fr"
            return call_next() if payload["args"] != ["stop"] else None

        client = configure("redis://nowhere.invalid:1/0")
        client.middleware.add(middleware)

        assert echo.perform_async("stop") is None
        echo.perform_async("go")
        assert [each.payload["locale"] for each in jobs.jobs] == ["fr"]

    def test_what_could_not_be_pushed_is_refused(self, jobs, echo):
        with pytest.raises(PayloadError, match="args"):
            echo.perform_async(object())
        with pytest.raises(PayloadError):
            Client(max_payload_bytes=100).push({"class": "Echo", "args": ["x" * 200]})
        with pytest.raises(NotInMemory, match="command OBJECT"):
            Client().pool.call("OBJECT", "ENCODING", "queues")
        assert jobs.jobs == []

    def test_a_guarded_push_is_recorded_once(self, jobs, echo):
        items = [{"class": echo, "args": [1]}] * 2

        first, second = Client().push_once(items, ["order-1", "order-1"])
        [third] = Client().push_once(items[:1], ["order-1"])

        assert (first.duplicate, second.duplicate, third.duplicate) == (False, True, True)
        assert second.jid == third.jid == first.jid
        assert len(jobs.jobs) == 1

    def test_a_fake_within_another_begins_empty_and_leaves_nothing(self, jobs, echo):
        echo.perform_async("outer")
        with fake() as inner:
            echo.perform_async("inner")
            assert [each.args for each in inner.jobs] == [["inner"]]

        assert [each.args for each in jobs.jobs] == [["outer"]]


class TestDraining:
    def test_jobs_are_performed_in_the_order_of_their_pushes_also_those_of_jobs(
        self, jobs, echo, seen
    ):
        @job(queue="high")
        def outer(number):
            seen.append(number)
            echo.perform_async("by", number)

        outer.perform_async(1)
        echo.perform_async("between")
        outer.perform_async(2)

        assert drain() == 5
        assert seen == [1, ("between",), 2, ("by", 1), ("by", 2)]
        assert jobs.jobs == []
        assert [each.outcome for each in jobs.performed] == ["done"] * 5
        assert jobs.assert_performed("Echo", args=["between"]).error is None

    def test_a_part_is_performed_by_queue_by_job_and_by_number(self, jobs, echo, seen):
        other = job(name="Other")(lambda: seen.append("other"))
        for number in range(4):
            echo.perform_async(number)
        other.perform_async()
        assert jobs.drain(job=other) == 1
        assert jobs.drain(queue="low", limit=2) == 2
        assert jobs.drain(queue="empty") == 0
        assert seen == ["other", (0,), (1,)]
        assert len(jobs.jobs) == 2
        jobs.clear()
        assert (jobs.jobs, jobs.performed) == ([], [])

    def test_without_a_fake_there_is_nothing_to_drain(self):
        with pytest.raises(ConfigError, match="no fake is in effect"):
            drain()

    def test_jobs_that_enqueue_each_other_without_end_are_stopped(self, jobs, monkeypatch):
        monkeypatch.setattr("kiqbridge.testing.fake_jobs.MOST_JOBS", 20)

        @job(name="Again")
        def again():
            again.perform_async()

        again.perform_async()

        with pytest.raises(EndlessJobs, match="20 jobs were performed, and Again"):
            jobs.drain()
        assert jobs.drain(limit=30) == 30

    def test_a_class_has_its_jid_and_a_coroutine_runs_on_a_loop_also_within_another(
        self, jobs, seen
    ):
        class Report(Job):
            def perform(self, day):
                seen.append((self.jid, day))

        @job
        async def crawl(url):
            await asyncio.sleep(0)
            seen.append(url)

        async def test():
            crawl.perform_async("b")
            return jobs.drain()

        jid = Report.perform_async("monday")
        crawl.perform_async("a")
        jobs.drain()
        assert asyncio.run(test()) == 1
        assert seen == [(jid, "monday"), "a", "b"]

    def test_middleware_of_the_worker_and_its_capsule_goes_around_each_job(
        self, jobs, echo, seen, server
    ):
        async def asynchronous(_instance, payload, _queue, call_next):
            seen.append(f"async {payload['class']}")
            return await call_next()

        own = Chain(lambda _instance, _payload, queue, call_next: seen.append(queue) or call_next())
        server.capsule("single", queues=["low"], middleware=own)
        server.middleware.add(asynchronous)

        @job(name="Crawl")
        async def crawl():
            seen.append("crawl")

        echo.perform_async(1)
        crawl.perform_async()
        jobs.drain()
        assert seen == ["low", (1,), "async Crawl", "crawl"]

    def test_resources_are_open_from_the_first_job_to_the_end_of_the_fake(self, echo, seen, server):
        @server.lifespan
        @contextlib.contextmanager
        def database():
            seen.append("open")
            yield "the database"
            seen.append("closed")

        @server.lifespan
        @contextlib.asynccontextmanager
        async def session():
            seen.append("open on the loop")
            yield "the session"
            seen.append("closed on the loop")

        @job
        async def query():
            seen.append((database.value, session.value))

        with fake() as jobs:
            echo.perform_async(1)
            jobs.drain()
            query.perform_async()
            query.perform_async()
            jobs.drain()

        one = ("the database", "the session")
        assert seen == [
            *("open", (1,), "open on the loop", one, one),
            *("closed on the loop", "closed"),
        ]

    def test_a_job_that_takes_too_long_is_ended(self, jobs):
        @job(timeout_s=0.05)
        def slow():
            until = time.monotonic() + 30
            while time.monotonic() < until:
                time.sleep(0.001)

        slow.perform_async()

        with pytest.raises(JobTimeout):
            jobs.drain()

    def test_the_end_of_a_schedules_job_is_in_the_ledger(self, jobs, echo):
        Client().push_tick("nightly", int(jobs.clock.now()), [{"class": echo, "args": []}], by="me")

        assert jobs.jobs[0].tick["schedule"] == "nightly"
        jobs.drain()
        assert len(jobs.memory.sorted_set("kb:ends:nightly")) == 1


class TestFailing:
    @pytest.fixture
    def failing(self, seen):
        @job(name="Failing", retry=1)
        def failing(message):
            seen.append(message)
            raise ValueError(message)

        return failing

    def test_the_first_error_is_raised_with_the_job(self, jobs, failing, seen):
        jid = failing.perform_async("first")
        failing.perform_async("second")

        with pytest.raises(ValueError, match="first") as caught:
            jobs.drain()

        assert jid in caught.value.__notes__[0]
        assert "outcome: retry" in caught.value.__notes__[0]
        assert seen == ["first"]
        assert [each.args for each in jobs.jobs] == [["second"]]

    def test_without_raising_it_is_tried_again_when_its_time_has_come_and_dies(
        self, jobs, failing, seen, server
    ):
        died = []
        server.death_handlers.append(lambda payload, error: died.append((payload["jid"], error)))
        jobs.clock.freeze()
        jid = failing.perform_async("no")

        assert jobs.drain(raise_errors=False) == 1
        [retry] = jobs.retries
        assert (retry.jid, retry.retry_count, retry.error_class) == (jid, 0, "ValueError")
        assert retry.error_message == "no"
        assert 15 <= retry.at - jobs.clock.now() <= 24
        assert jobs.drain(raise_errors=False) == 0

        jobs.clock.move(minutes=1)
        assert jobs.drain(raise_errors=False) == 1

        assert seen == ["no", "no"]
        assert jobs.retries == []
        assert [each.jid for each in jobs.dead] == [jid]
        assert [each.outcome for each in jobs.performed] == ["retry", "dead"]
        [(dead, error)] = died
        assert (dead, str(error)) == (jid, "no")

    def test_the_rules_of_the_class_count(self, jobs):
        @job(on_error={KeyError: "discard"}, retry_in=lambda *_: 1000)
        def picky(kind):
            raise {"key": KeyError, "value": ValueError}[kind]

        jobs.clock.freeze()
        picky.perform_async("key")
        picky.perform_async("value")
        jobs.drain(raise_errors=False)

        assert [each.outcome for each in jobs.performed] == ["discarded", "retry"]
        assert 1000 <= jobs.retries[0].at - jobs.clock.now() <= 1009

    def test_an_unknown_class_is_told_and_a_job_of_a_batch_of_ruby_refused(self, jobs, echo):
        Client().push({"class": "Reports::Nightly", "args": []})
        with pytest.raises(JobNotFound, match="Reports"):
            jobs.drain()
        Client().push({"class": echo, "args": [], "bid": "b1"})
        jobs.drain(raise_errors=False)
        assert "batch" in jobs.dead[0].error_message

    def test_a_failure_of_the_test_itself_is_always_raised(self, jobs):
        @job
        def checks():
            pytest.fail("seen by the test")

        checks.perform_async()
        with pytest.raises(pytest.fail.Exception, match="seen by the test"):
            jobs.drain(raise_errors=False)
