"""Calling a job within its middleware."""

import asyncio
import logging

import pytest
from support.runners import fail, kept, payload

from kiqbridge.client.current import CONTEXT
from kiqbridge.errors import Shutdown
from kiqbridge.settle.settlement import Verdict


class TestAsync:
    def test_an_async_function_is_run_to_its_end_within_its_context(self, runner):
        got = []

        async def work(value):
            await asyncio.sleep(0)
            got.append((value, CONTEXT.get()[0]["jid"]))

        runner.declare(work)
        assert runner.run(payload(1)) is None
        assert runner.run(payload(2, jid="second")) is None
        assert got == [(1, "j1"), (2, "second")]

    @pytest.mark.parametrize(
        "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
    )
    def test_leaving_it_in_odd_ways_is_a_failure_and_the_next_one_runs(self, runner, error):
        async def work(value):
            await asyncio.sleep(0)
            if value:
                raise error

        runner.declare(work)
        assert runner.run(payload(1)).verdict is Verdict.RETRY
        assert runner.run(payload(0)) is None

    def test_an_interrupt_inside_it_passes(self, runner):
        async def work():
            raise Shutdown

        runner.declare(work)
        runner.thread.interrupted = True

        with pytest.raises(Shutdown):
            runner.run(payload())


class TestMiddleware:
    def test_it_wraps_the_job_the_first_one_outermost(self, runner):
        order = []

        def around(name):
            def wrap(instance, seen, queue, call_next):
                order.append((name, instance.jid, seen["class"], queue))
                result = call_next()
                order.append(name)
                return result

            return wrap

        runner.declare(lambda: order.append("perform"))
        runner.middleware.add(around("outer"))
        runner.middleware.add(around("inner"))

        assert runner.run(payload(), "mail") is None
        assert order == [
            ("outer", "j1", "Work", "mail"),
            ("inner", "j1", "Work", "mail"),
            "perform",
            "inner",
            "outer",
        ]

    def test_one_that_does_not_call_on_skips_the_job_which_counts_as_done(self, runner, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")
        runner.declare(fail)
        runner.middleware.add(lambda *_args: None)
        assert runner.run(payload()) is None
        assert caplog.messages == ["start", "done"]

    def test_its_failure_is_the_jobs_and_arguments_it_changed_reach_the_job(self, runner):
        got = []

        def change(_instance, seen, _queue, call_next):
            if seen["args"] == [0]:
                raise PermissionError("not today")
            seen["args"] = [2]
            return call_next()

        runner.declare(got.append)
        runner.middleware.add(change)
        assert kept(runner.run(payload(0)))["error_class"] == "PermissionError"
        runner.run(payload(1))
        assert got == [2]
