"""Chains in which `async def` middleware and plain functions meet."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kiqbridge.middleware import Chain

COLOUR = contextvars.ContextVar("colour", default="none")


class Note:
    """Middleware of either kind that writes down when it is entered and left."""

    def __init__(self):
        self.heard = []

    def plain(self, name):
        def middleware(_payload, call_next):
            self.heard.append(f"{name} in")
            try:
                return call_next()
            finally:
                self.heard.append(f"{name} out")

        return middleware

    def asynchronous(self, name):
        async def middleware(_payload, call_next):
            await asyncio.sleep(0)
            self.heard.append(f"{name} in")
            try:
                return await call_next()
            finally:
                await asyncio.sleep(0)
                self.heard.append(f"{name} out")

        return middleware

    def mixed(self):
        """a plain, b asynchronous, c plain, d asynchronous."""
        return Chain(
            self.plain("a"), self.asynchronous("b"), self.plain("c"), self.asynchronous("d")
        )


ORDER = ["a in", "b in", "c in", "d in", "job", "d out", "c out", "b out", "a out"]


@pytest.fixture
def note():
    return Note()


def on_loop(chain, final):
    """Run a chain around a coroutine function as a capsule's loop does."""

    async def run():
        return await chain.invoke_async(({},), final, executor)

    with ThreadPoolExecutor(4) as executor:
        return asyncio.run(run())


class TestAroundAPlainJob:
    def test_both_kinds_nest_in_order(self, note):
        assert note.mixed().invoke(({},), lambda: note.heard.append("job") or 42) == 42
        assert note.heard == ORDER

    def test_the_job_runs_on_the_thread_that_asked(self, note):
        threads = []

        note.mixed().invoke(({},), lambda: threads.append(threading.get_ident()))

        assert threads == [threading.get_ident()]

    def test_an_error_passes_through_every_level(self, note):
        with pytest.raises(ZeroDivisionError):
            note.mixed().invoke(({},), lambda: 1 // 0)
        assert note.heard == [each for each in ORDER if each != "job"]

    def test_even_stop_iteration_does_not_hang(self, note):
        def job():
            raise StopIteration

        with pytest.raises(RuntimeError, match="StopIteration"):
            note.mixed().invoke(({},), job)

    def test_one_that_does_not_call_on_skips_the_job(self, note):
        async def stops(_payload, _call_next):
            return None

        assert Chain(note.plain("a"), stops).invoke(({},), lambda: note.heard.append("job")) is None
        assert note.heard == ["a in", "a out"]

    def test_context_variables_reach_the_job(self):
        async def paints(_payload, call_next):
            COLOUR.set("red")
            return await call_next()

        assert Chain(paints).invoke(({},), COLOUR.get) == "red"
        assert COLOUR.get() == "none"

    def test_it_works_within_a_running_loop(self, note):
        async def run():
            return note.mixed().invoke(({},), lambda: 42)

        assert asyncio.run(run()) == 42


class TestAroundACoroutine:
    def test_both_kinds_nest_in_order(self, note):
        async def job():
            await asyncio.sleep(0)
            note.heard.append("job")
            return 42

        assert on_loop(note.mixed(), job) == 42
        assert note.heard == ORDER

    def test_the_job_runs_on_the_loop(self, note):
        async def job():
            return threading.current_thread().name

        assert on_loop(note.mixed(), job) == threading.current_thread().name

    def test_an_error_passes_through_every_level(self, note):
        async def job():
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            on_loop(note.mixed(), job)
        assert note.heard == [each for each in ORDER if each != "job"]

    def test_context_variables_reach_the_job(self):
        def paints(_payload, call_next):
            COLOUR.set("blue")
            return call_next()

        async def job():
            return COLOUR.get()

        assert on_loop(Chain(paints), job) == "blue"

    def test_cancelling_reaches_the_job_behind_a_plain_middleware(self, note):
        cancelled = []

        async def run():
            begun = asyncio.Event()

            async def job():
                begun.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(True)
                    raise

            task = asyncio.create_task(Chain(note.plain("a")).invoke_async(({},), job, executor))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with ThreadPoolExecutor(2) as executor:
            asyncio.run(run())
        assert cancelled == [True]


class TestKinds:
    def test_an_instance_with_an_async_call_is_asynchronous(self):
        class Tracing:
            async def __call__(self, _payload, call_next):
                return await call_next()

        chain = Chain(Tracing())

        assert chain.is_partly_async
        assert chain.invoke(({},), lambda: 42) == 42

    def test_a_chain_without_any_stays_plain(self, note):
        entry = note.asynchronous("b")
        chain = Chain(note.plain("a"), entry)

        chain.remove(entry)

        assert not chain.is_partly_async
