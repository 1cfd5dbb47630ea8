"""Performing one job within its middleware: its steps, how it is interrupted, what it logs."""

import asyncio
import contextlib
import logging

import pytest
from support.runners import fail, kept, payload

from kiqbridge.client.current import CONTEXT
from kiqbridge.engine.settle.ending import Target
from kiqbridge.errors import JobInterrupted, Shutdown


def interrupt():
    raise Shutdown


class TestSuccess:
    def test_the_function_gets_the_arguments_and_nothing_is_to_be_settled(self, runner):
        got = []
        runner.declare(lambda *args: got.append(args))
        assert runner.run(payload(1, "two", {"three": [3.0]}, 2**70)) is None
        assert got == [(1, "two", {"three": [3.0]}, 2**70)]

    def test_the_thread_is_performing_only_while_user_code_runs(self, runner):
        seen = []

        def work():
            seen.append(runner.thread.performing)
            fail()

        def around(_instance, _payload, _queue, call_next):
            seen.append(runner.thread.performing)
            return call_next()

        runner.declare(work)
        runner.middleware.add(around)
        runner.run(payload())
        assert [*seen, runner.thread.performing] == [False, True, False]


class TestShutdown:
    def test_an_interrupt_passes_and_asks_for_nothing(self, runner, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")
        runner.thread.interrupted = True

        runner.declare(interrupt)

        with pytest.raises(Shutdown):
            runner.run(payload())
        assert caplog.messages == ["start", "interrupted: given back"]
        assert CONTEXT.get() is None

    @pytest.mark.parametrize("error", [Shutdown, JobInterrupted])
    def test_a_job_that_raises_one_uninterrupted_has_failed(self, runner, error):
        def work():
            raise error

        runner.declare(work)
        settlement = runner.run(payload())
        assert settlement.target is Target.RETRY
        assert kept(settlement)["error_class"] == f"kiqbridge.errors.{error.__name__}"

    def test_an_error_that_the_interrupt_caused_is_the_interrupt_and_no_job_swallows_it(
        self, runner
    ):
        def work():
            try:
                interrupt()
            except Shutdown as error:
                raise RuntimeError("rolled back") from error

        def clean_up_badly():
            try:
                interrupt()
            finally:
                fail()

        def go_on():
            with contextlib.suppress(Exception):  # what many a job does
                interrupt()

        runner.thread.interrupted = True
        for function in (work, clean_up_badly, go_on):
            runner.declare(function, function.__name__)
            with pytest.raises(Shutdown):
                runner.run(payload(**{"class": function.__name__}))


class TestLog:
    @pytest.fixture(autouse=True)
    def at_info(self, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")

    def test_a_job_that_succeeds_says_start_and_done_and_what_it_logs_knows_the_job(
        self, runner, caplog
    ):
        seen = []
        runner.declare(lambda: seen.append(CONTEXT.get()))
        runner.run(payload(), "mail")
        assert caplog.messages == ["start", "done"]
        assert caplog.records[1].elapsed == round(caplog.records[1].elapsed, 3) >= 0
        assert seen == [(payload(), "mail")]
        assert CONTEXT.get() is None

    def test_a_job_that_fails_says_start_and_fail_and_why(self, runner, caplog):
        runner.declare(fail)

        runner.run(payload())

        assert caplog.messages[:2] == ["start", "fail"]
        assert caplog.messages[2].startswith("ValueError: no luck; it is tried again in ")
        assert caplog.records[2].levelno == logging.WARNING
        assert caplog.records[2].exc_info[0] is ValueError

    @pytest.mark.parametrize(
        ("retry", "words"),
        [(0, "it is dead, no tries are left"), (False, "it is dropped")],
    )
    def test_it_says_what_becomes_of_the_job(self, runner, caplog, retry, words):
        runner.declare(fail)

        runner.run(payload(retry=retry))

        assert words in caplog.messages[2]


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
        assert runner.run(payload(1)).target is Target.RETRY
        assert runner.run(payload(0)) is None

    def test_an_interrupt_inside_it_passes(self, runner):
        async def work():
            raise Shutdown

        runner.declare(work)
        runner.thread.interrupted = True

        with pytest.raises(Shutdown):
            runner.run(payload())


class TestMiddleware:
    def test_it_wraps_the_job_and_is_told_which(self, runner):
        order = []

        def around(instance, seen, queue, call_next):
            order.append((instance.jid, seen["class"], queue))
            result = call_next()
            order.append("after")
            return result

        runner.declare(lambda: order.append("perform"))
        runner.middleware.add(around)
        assert runner.run(payload(), "mail") is None
        assert order == [("j1", "Work", "mail"), "perform", "after"]

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
