"""What `async def` jobs do to their event loop: nothing of it may keep other jobs, or them, in flight."""

# ruff: noqa: PLR0917 - a test asks for its fixtures by name

import asyncio
import json
import os
import sys
import threading
import warnings
from contextlib import asynccontextmanager, contextmanager

import pytest
from support.engine import in_flight
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.client.job import job

pytestmark = pytest.mark.any_server


@pytest.fixture(params=["asyncio", "uvloop"])
def kind(request, monkeypatch):
    """Which event loop runs the jobs."""
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")
    return request.param


@pytest.fixture
def done():
    return []


@pytest.fixture
def may_end():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def working(done, may_end, setup, redis_url):
    """A worker with jobs that do no harm: Quick, Plain, and Holds, which waits for `may_end`."""
    with own_declarations():

        @job(name="Quick")
        async def quick(name):
            await asyncio.sleep(0)
            done.append(name)

        @job(name="Plain")
        def plain(name):
            done.append(name)

        @job(name="Holds")
        async def holds(name):
            while not may_end.is_set():  # noqa: ASYNC110 - set on another thread
                await asyncio.sleep(0.005)
            done.append(name)

        @contextmanager
        def working(**settings):
            with launched(redis_url, setup, **{"async_concurrency": "50", **settings}) as launcher:
                try:
                    yield launcher
                finally:
                    may_end.set()
            for lost in launcher.parts.capsules[0].loop._lost:  # here no descriptor is another's
                for task in asyncio.all_tasks(lost):
                    task._log_destroy_pending = False
                    task.get_coro().close()
                with warnings.catch_warnings():
                    # Python 3.13 warns that nobody awaits the end of a lifespan: its loop cannot run.
                    warnings.simplefilter("ignore", RuntimeWarning)
                    lost.close()

        yield working


def push(client, name, *args, **attributes):
    return client.push({"class": name, "args": list(args), **attributes})


def retried(redis):
    return [json.loads(text) for text in redis.zrange("retry", 0, -1)]


def taken(launcher):
    return launcher.parts.capsules[0].loop.slots.taken


class TestJobsThatCancelThemselves:
    @pytest.mark.parametrize("around", ["nothing", "async def", "plain", "both"])
    def test_they_fail_and_are_tried_again(self, kind, working, client, setup, redis, done, around):
        @job(name="SelfCancel", retry=3, retry_in=lambda *_: 86_400)
        async def self_cancel():
            asyncio.current_task().cancel()
            await asyncio.sleep(60)

        async def asynchronous(_job, _payload, _queue, call_next):
            return await call_next()

        def plain(_job, _payload, _queue, call_next):
            return call_next()

        if around in {"async def", "both"}:
            setup.middleware.add(asynchronous)
        if around in {"plain", "both"}:
            setup.middleware.add(plain)

        with working() as launcher:
            for _ in range(10):
                push(client, "SelfCancel")
            wait_until(lambda: redis.zcard("retry") == 10)
            push(client, "Quick", "after")
            wait_until(lambda: done == ["after"] and not in_flight(redis))
            assert taken(launcher) == 0

        assert {each["error_class"] for each in retried(redis)} == {
            "asyncio.exceptions.CancelledError"
        }
        assert redis.get("stat:processed") == b"11"
        assert redis.get("stat:failed") == b"10"

    def test_one_that_ends_before_its_cancellation_arrives_has_succeeded(
        self, kind, working, client, redis, done
    ):
        @job(name="CancelLast")
        async def cancel_last():
            asyncio.current_task().cancel()
            done.append("it")

        with working() as launcher:
            push(client, "CancelLast")
            wait_until(lambda: done == ["it"] and not in_flight(redis))
            assert taken(launcher) == 0

        assert not redis.exists("retry")
        assert redis.get("stat:processed") == b"1"

    def test_one_that_cancels_all_others_leaves_none_in_flight(
        self, kind, working, client, redis, done, may_end
    ):
        may_go_on = threading.Event()

        @job(name="Blocks")
        async def blocks():
            may_go_on.wait(30)

        @job(name="CancelAll")
        async def cancel_all():
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()

        with working() as launcher:
            push(client, "Holds", "begun")
            wait_until(lambda: taken(launcher) == 1)
            # One by one: two threads may hand over what they took in another order.
            push(client, "Blocks")
            wait_until(lambda: taken(launcher) == 2)
            push(client, "CancelAll")
            wait_until(lambda: taken(launcher) == 3)
            for number in range(5):
                push(client, "Quick", number)
            wait_until(lambda: taken(launcher) == 8)
            may_go_on.set()

            wait_until(lambda: sorted(done) == list(range(5)), 20, what="the unbegun come back")
            wait_until(lambda: not in_flight(redis))
            assert taken(launcher) == 0
            assert [each["args"] for each in retried(redis)] == [["begun"]]


class TestLoopsThatAreEnded:
    @pytest.mark.parametrize("how", ["task", "callback", "interrupt", "stop"])
    def test_the_loop_goes_on_with_all_its_jobs(
        self, kind, working, client, redis, done, may_end, caplog, how
    ):
        @job(name="Ends")
        async def ends():
            loop = asyncio.get_running_loop()
            if how == "stop":
                loop.stop()
            elif how == "callback":
                loop.call_soon(sys.exit, 3)
            else:
                error = SystemExit if how == "task" else KeyboardInterrupt

                async def leave():
                    raise error

                loop.own = loop.create_task(leave()) if kind == "asyncio" else None
                tasks.append(loop.own or loop.create_task(leave()))

        tasks = []
        with working() as launcher:
            push(client, "Holds", "bystander")
            wait_until(lambda: taken(launcher) == 1)
            for _ in range(3):
                push(client, "Ends")
            wait_until(lambda: "it continues, with all its jobs" in caplog.text)
            for number in range(10):
                push(client, "Quick", number)
                push(client, "Plain", number + 10)
            wait_until(lambda: sorted(done) == list(range(20)))
            may_end.set()
            wait_until(lambda: "bystander" in done and not in_flight(redis))
            assert taken(launcher) == 0
            assert launcher.parts.capsules[0].loop.alive
            for task in tasks:
                wait_until(task.done)
                task.exception()

        named = {
            "task": "SystemExit",
            "callback": "SystemExit",
            "interrupt": "KeyboardInterrupt",
            "stop": "loop.stop()",
        }
        assert named[how] in caplog.text
        assert not redis.exists("retry")
        assert redis.get("stat:processed") == b"24"


def break_loop():
    """Put something else in the place of the selector's descriptor, which keeps its number."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, asyncio.get_running_loop()._selector.fileno())
    os.close(nothing)


class TestLoopsThatCannotGoOn:
    def test_its_jobs_are_given_back_and_another_loop_runs_them(
        self, monkeypatch, working, client, setup, redis, done, may_end, caplog
    ):
        monkeypatch.setitem(sys.modules, "uvloop", None)
        opened = []
        begun = []

        @setup.lifespan
        @asynccontextmanager
        async def pool():
            opened.append(id(asyncio.get_running_loop()))
            yield len(opened)

        async def around(_job, payload, _queue, call_next):
            begun.append((payload["class"], pool.value))
            return await call_next()

        @job(name="Breaks")
        async def breaks():
            break_loop()

        setup.middleware.add(around)
        with working() as launcher:
            push(client, "Holds", "bystander")
            push(client, "Plain", "before")
            wait_until(lambda: taken(launcher) == 1 and done == ["before"])
            push(client, "Breaks")
            wait_until(lambda: ("Holds", 2) in begun, 20, what="the bystander on another loop")
            push(client, "Plain", "after")
            push(client, "Quick", "too")
            wait_until(lambda: {"after", "too"} <= set(done))
            may_end.set()
            wait_until(lambda: "bystander" in done and not in_flight(redis))
            assert taken(launcher) == 0

        assert "cannot continue (it failed with OSError" in caplog.text
        assert done.count("bystander") == 1
        assert [each for each in begun if each[0] == "Plain"] == [("Plain", 1), ("Plain", 2)]
        assert len(set(opened)) == 2

    @pytest.mark.slow
    def test_after_too_many_in_a_row_the_process_hears_of_it(
        self, monkeypatch, working, client, redis, done
    ):
        monkeypatch.setitem(sys.modules, "uvloop", None)
        lost = []

        @job(name="BreaksAndStays")
        async def breaks_and_stays():
            break_loop()
            await asyncio.sleep(60)

        with working() as launcher:
            loop = launcher.parts.capsules[0].loop
            loop.on_lost = lost.append
            push(client, "BreaksAndStays")
            wait_until(lambda: lost, 30)
            wait_until(lambda: not loop.alive)
            push(client, "Quick", "for another process")
            push(client, "Plain", "here", queue="default")

            assert "OSError" in lost[0]
            assert len(in_flight(redis)) == 1, "whoever recovers it counts it"

        assert len(redis.lrange("queue:default", 0, -1)) >= 2  # given back at the end; none is lost
