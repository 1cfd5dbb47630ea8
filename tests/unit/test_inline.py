"""`perform_inline`: a job runs here and now as if it had come through Redis."""

import asyncio
import contextvars
import datetime as dt

import pytest
from support.jobs import own_declarations

from kiqbridge import Job, JobNotFound, PayloadError, configure, job

NOWHERE = "redis://nowhere.invalid:1/0"
"""No test here reaches a server."""


@pytest.fixture(autouse=True)
def client():
    with own_declarations():
        yield configure(NOWHERE)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def echo(seen):
    @job(name="Echo", queue="low")
    def echo(*args, last=None):
        seen.append(args)
        return "no job's result is passed on"

    return echo


class TestPerforming:
    def test_a_function_runs_with_its_arguments_and_the_answer_is_true(self, echo, seen):
        assert echo.perform_inline(1, "two", {"three": [3.0]}) is True
        assert seen == [(1, "two", {"three": [3.0]})]

    def test_a_class_is_instantiated_with_its_jid(self, seen):
        class Report(Job):
            def perform(self, day, copy=False):
                seen.append((self.jid, day, copy))

        assert Report.perform_inline("monday", copy=True) is True
        assert Report.set(queue="high").perform_inline("sunday") is True

        assert [call[1:] for call in seen] == [("monday", True), ("sunday", False)]
        assert all(len(call[0]) == 24 for call in seen)

    def test_an_async_job_is_run_to_its_end(self, seen):
        @job
        async def crawl(url):
            await asyncio.sleep(0)
            seen.append(url)

        assert crawl.perform_inline("a") is True
        assert seen == ["a"]

    def test_within_a_running_loop_an_async_job_is_run_to_its_end_too(self, seen):
        tenant = contextvars.ContextVar("tenant")

        @job
        async def crawl(url):
            await asyncio.sleep(0)
            seen.append((url, tenant.get()))

        async def main():
            tenant.set("acme")
            return crawl.perform_inline("a")

        assert asyncio.run(main()) is True
        assert seen == [("a", "acme")]

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

    def test_an_error_is_the_callers(self):
        @job
        def fail():
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            fail.perform_inline()

    @pytest.mark.parametrize("argument", [dt.date(2026, 1, 1), object(), float("nan"), {1: 2}])
    def test_what_could_not_be_enqueued_is_refused(self, echo, seen, argument):
        with pytest.raises(PayloadError, match=r"args\[0\]"):
            echo.perform_inline(argument)
        assert seen == []

    def test_a_wrong_call_is_refused(self):
        @job
        def one(value):
            raise AssertionError(value)

        with pytest.raises(PayloadError, match="cannot be called like this"):
            one.perform_inline(1, 2)

    def test_profile_auto_asks_no_redis(self, echo, seen):
        configure(NOWHERE, profile="auto")

        assert echo.perform_inline() is True


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

        assert echo.perform_inline(1) is True
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

    def test_what_middleware_makes_of_the_job_is_what_runs(self, client, echo, seen):
        client.middleware.add(lambda *given: given[-1]() | {"args": ["changed"]})

        echo.perform_inline("given")

        assert seen == [("changed",)]

    def test_a_class_that_is_not_declared_here_is_told_as_a_worker_tells_it(self, client, echo):
        client.middleware.add(lambda *given: given[-1]() | {"class": "Ruby::Only"})

        with pytest.raises(JobNotFound, match="uninitialized constant Ruby"):
            echo.perform_inline()
