"""`perform_inline`: a job runs here and now as if it had come through Redis."""

import asyncio
import contextlib
import contextvars
import datetime as dt
import time

import pytest
from support.jobs import own_declarations

from kiqbridge import ConfigError, Job, JobNotFound, JobTimeout, PayloadError, configure, job
from kiqbridge import server as server_

NOWHERE = "redis://nowhere.invalid:1/0"
"""No test here reaches a server."""


@pytest.fixture(autouse=True)
def client():
    with own_declarations():
        yield configure(NOWHERE)


@pytest.fixture
def server():
    """The one that `-r` code fills, as it was before afterwards."""
    before, resources = server_.middleware.copy(), list(server_.resources)
    yield server_
    server_.middleware.clear()
    for entry in before:
        server_.middleware.add(entry)
    server_.resources[:] = resources


@pytest.fixture
def echo(seen):
    @job(name="Echo", queue="low")
    def echo(*args, last=None):
        seen.append(args)
        return "echo"

    return echo


class TestPerforming:
    def test_a_function_runs_with_its_arguments_and_what_it_returns_is_the_answer(
        self, client, echo, seen
    ):
        assert echo.perform_inline(1, "two", {"three": [3.0]}) == "echo"
        assert seen == [(1, "two", {"three": [3.0]})]
        configure(NOWHERE, profile="auto")  # which asks no Redis
        assert echo.perform_inline() == "echo"

    def test_a_class_is_instantiated_with_its_jid(self, seen):
        class Report(Job):
            def perform(self, day, copy=False):
                seen.append((self.jid, day, copy))
                return day

        assert Report.perform_inline("monday", copy=True) == "monday"
        assert Report.set(queue="high").perform_inline("sunday") == "sunday"

        assert [call[1:] for call in seen] == [("monday", True), ("sunday", False)]
        assert all(len(call[0]) == 24 for call in seen)

    def test_an_async_job_is_run_to_its_end_also_within_a_running_loop(self, seen):
        tenant = contextvars.ContextVar("tenant", default="none")

        @job
        async def crawl(url):
            await asyncio.sleep(0)
            seen.append((url, tenant.get()))
            return {url: 200}

        async def main():
            tenant.set("acme")
            return crawl.perform_inline("b")

        assert crawl.perform_inline("a") == {"a": 200}
        assert asyncio.run(main()) == {"b": 200}
        assert seen == [("a", "none"), ("b", "acme")]

    def test_arguments_go_through_json_as_through_redis(self, seen):
        @job
        def change(value):
            value.append(1)
            seen.append(value)

        mine = [2**70, "é"]
        change.perform_inline(mine)

        assert mine == [2**70, "é"]
        assert seen == [[2**70, "é", 1]]

    def test_the_options_of_the_call_reach_the_payload(self, client, echo, seen):
        client.server_middleware.add(
            lambda _job, payload, queue, call: seen.append((payload["tags"], queue)) or call()
        )

        echo.set(tags=["x"], queue="high", wait=3600).perform_inline()

        assert seen == [(["x"], "high"), ()]

    def test_an_error_is_the_callers_and_a_wrong_call_is_refused(self):
        @job
        def fail():
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            fail.perform_inline()
        with pytest.raises(PayloadError, match="cannot be called like this"):
            fail.perform_inline(1, 2)

    @pytest.mark.parametrize("argument", [dt.date(2026, 1, 1), object(), float("nan"), {1: 2}])
    def test_what_could_not_be_enqueued_is_refused(self, echo, seen, argument):
        with pytest.raises(PayloadError, match=r"args\[0\]"):
            echo.perform_inline(argument)
        assert seen == []


class TestMiddleware:
    def test_that_of_pushes_is_around_the_payload_and_that_of_the_server_around_the_job(
        self, client, echo, seen
    ):
        def push(declared, payload, queue, call_next):
            seen.append(("push", declared is echo, queue))
            payload["tenant"] = "acme"
            return call_next()

        def server(instance, payload, queue, call_next):
            seen.append(("server in", instance is echo, payload["tenant"], queue))
            result = call_next()
            seen.append("server out")
            return result

        client.middleware.add(push)
        client.server_middleware.add(server)

        assert echo.perform_inline(1) == "echo"
        assert seen == [
            ("push", True, "low"),
            ("server in", True, "acme", "low"),
            (1,),
            "server out",
        ]

    def test_one_of_either_that_does_not_call_on_stops_the_job(self, client, echo, seen):
        client.server_middleware.add(lambda *_: None)
        assert echo.perform_inline() is None

        client.server_middleware.clear()
        client.middleware.add(lambda *_: None)
        assert echo.perform_inline() is None

        assert seen == []

    def test_what_middleware_makes_of_the_job_is_what_runs_if_it_is_declared(
        self, client, echo, seen
    ):
        changes = {"args": ["changed"]}
        client.middleware.add(lambda *given: given[-1]() | changes)
        echo.perform_inline("given")
        assert seen == [("changed",)]
        changes["class"] = "Ruby::Only"
        with pytest.raises(JobNotFound, match="uninitialized constant Ruby"):
            echo.perform_inline()

    def test_that_of_the_worker_goes_around_the_job_too_outside_the_clients(
        self, client, server, echo, seen
    ):
        server.middleware.add(lambda *given: seen.append("worker") or given[-1]())
        client.server_middleware.add(lambda *given: seen.append("client") or given[-1]())

        assert echo.perform_inline(1) == "echo"
        assert seen == ["worker", "client", (1,)]


class TestResources:
    def test_they_are_open_while_the_job_runs_and_closed_after_it(self, server, seen):
        @server.lifespan
        @contextlib.contextmanager
        def database():
            seen.append("open")
            yield "a pool"
            seen.append("closed")

        @job
        def read(depth):
            seen.append(database.value)
            if depth:
                read.perform_inline(depth - 1)

        read.perform_inline(1)

        assert seen == ["open", "a pool", "a pool", "closed"]
        with pytest.raises(ConfigError, match="is not open here"):
            _ = database.value

    def test_asynchronous_ones_are_open_on_the_loop_of_an_async_job(self, server, seen):
        @server.lifespan
        @contextlib.asynccontextmanager
        async def session():
            seen.append("open")
            yield "a session"
            seen.append("closed")

        @job
        async def crawl():
            seen.append(session.value)
            return session.value

        async def within_a_loop():
            return crawl.perform_inline()

        assert crawl.perform_inline() == "a session"
        assert asyncio.run(within_a_loop()) == "a session"
        assert seen == ["open", "a session", "closed"] * 2

    def test_what_is_open_already_is_not_opened_and_an_error_while_opening_is_the_callers(
        self, server, seen
    ):
        @server.lifespan
        @contextlib.contextmanager
        def database():
            raise LookupError("no database")
            yield

        @job
        def read():
            seen.append(database.value)

        with pytest.raises(LookupError, match="no database"):
            read.perform_inline()
        assert seen == []
        database.opened("the worker's")
        read.perform_inline()
        assert database.value == seen[0] == "the worker's"
        database.closed()


class TestTimeLimits:
    def test_a_job_that_takes_too_long_is_ended_and_no_other(self, seen):
        @job(timeout_s=0.05)
        def endless():
            while True:
                time.sleep(0.001)

        @job(timeout_s=0.05)
        async def forever():
            await asyncio.sleep(60)

        @job(timeout_s=60)
        def quick():
            seen.append("done")

        for slow in (endless, forever):
            with pytest.raises(JobTimeout, match=r"timeout_s of 0\.05 s"):
                slow.perform_inline()
        quick.perform_inline()
        assert seen == ["done"]
