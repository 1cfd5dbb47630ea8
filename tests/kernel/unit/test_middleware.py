"""Chains of functions wrapped around a push or a job, plain ones and `async def`."""

import asyncio
import contextvars
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from support.waiting import wait_until

from kiqbridge.client import bridge
from kiqbridge.client.middleware import Chain
from kiqbridge.runtime.elastic_executor import ElasticExecutor


def named(name, heard):
    def middleware(payload, call_next):
        heard.append(f"{name} in")
        result = call_next()
        heard.append(f"{name} out")
        return result

    middleware.__qualname__ = name
    return middleware


def entries(*names):
    return [named(name, []) for name in names]


class TestCalling:
    def test_the_first_one_added_is_the_outermost(self):
        heard = []
        chain = Chain(named("a", heard), named("b", heard))
        assert chain.invoke(({},), lambda: heard.append("job") or "done") == "done"
        assert heard == ["a in", "b in", "job", "b out", "a out"]
        assert Chain().invoke(("ignored",), lambda: 42) == 42

    def test_one_may_change_the_arguments_and_the_result(self):
        def stamp(payload, call_next):
            payload["stamp"] = 1
            return call_next() | {"after": 2}

        payload = {"class": "A"}

        assert Chain(stamp).invoke((payload,), lambda: payload) == {
            "class": "A", "stamp": 1, "after": 2,
        }  # fmt: skip


class TestOrder:
    def test_entries_stand_where_they_were_put(self):
        a, b, c, d, absent = entries("a", "b", "c", "d", "absent")
        chain = Chain(b)
        chain.add(d)
        chain.prepend(a)
        chain.insert_before(d, c)
        assert list(chain) == [a, b, c, d]
        chain = Chain(a, c)
        chain.insert_after(a, b)
        chain.insert_after(absent, d)
        assert list(chain) == [a, b, c, d]
        chain.insert_before(absent, d)  # what is added again moves
        chain.add(a)
        assert list(chain) == [d, b, c, a]
        assert repr(chain) == "Chain(d, b, c, a)"

    def test_a_copy_changes_on_its_own_and_removing_what_is_not_in_does_nothing(self):
        a, b = entries("a", "b")
        chain = Chain(a)
        copy = chain.copy()
        copy.add(b)
        chain.remove(b)
        assert list(chain) == [a]
        chain.clear()
        assert (list(chain), list(copy)) == ([], [a, b])


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


def on_thread(chain, final):
    return chain.invoke(({},), final)


def on_loop_as_coroutine(chain, final):
    async def job():
        await asyncio.sleep(0)
        return final()

    return on_loop(chain, job)


@pytest.mark.parametrize("through", [on_thread, on_loop_as_coroutine])
class TestAroundEither:
    def test_both_kinds_nest_in_order(self, note, through):
        assert through(note.mixed(), lambda: note.heard.append("job") or 42) == 42
        assert note.heard == ORDER

    def test_an_error_passes_through_every_level(self, note, through):
        with pytest.raises(ZeroDivisionError):
            through(note.mixed(), lambda: 1 // 0)
        assert note.heard == [each for each in ORDER if each != "job"]

    @pytest.mark.parametrize("is_async", [True, False])
    def test_context_variables_reach_the_job(self, through, is_async):
        async def paints_on_loop(_payload, call_next):
            COLOUR.set("red")
            return await call_next()

        def paints(_payload, call_next):
            COLOUR.set("red")
            return call_next()

        chain = Chain(paints_on_loop if is_async else paints)

        assert contextvars.copy_context().run(through, chain, COLOUR.get) == "red"
        assert COLOUR.get() == "none"


class TestAroundAPlainJob:
    def test_the_job_runs_on_the_thread_that_asked_also_within_a_running_loop(self, note):
        async def run():
            return note.mixed().invoke(({},), threading.get_ident)

        assert note.mixed().invoke(({},), threading.get_ident) == threading.get_ident()
        assert asyncio.run(run()) == threading.get_ident()

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

    def test_it_fails_when_the_loop_ends_meanwhile(self, monkeypatch):
        monkeypatch.setattr(bridge, "LOOK_S", 0.05)
        owner = Owner()
        outcomes = []

        async def waits(_payload, _call_next):
            owner.begun.set()
            await asyncio.sleep(60)

        def perform():
            bridge.LOOP.set(owner)
            try:
                Chain(waits).invoke(({},), lambda: None)
            except RuntimeError as error:
                outcomes.append(str(error))

        thread = threading.Thread(target=perform, daemon=True)
        thread.start()
        assert owner.begun.wait(10)
        owner.end()

        thread.join(20)
        assert not thread.is_alive()
        assert "has ended" in outcomes[0]

    def test_it_fails_at_once_when_the_loop_is_closed(self):
        owner = Owner()
        owner.end()

        def perform():
            bridge.LOOP.set(owner)
            with pytest.raises(RuntimeError, match="closed"):
                Chain(note_async).invoke(({},), lambda: None)

        contextvars.Context().run(perform)

    def test_what_ends_the_loop_of_middleware_ends_it_for_no_other_job(self, caplog):
        async def leaves(_payload, call_next):
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            return await call_next()

        async def stops(_payload, call_next):
            asyncio.get_running_loop().stop()
            return await call_next()

        assert Chain(leaves, stops).invoke(({},), lambda: 42) == 42
        assert Chain(note_async).invoke(({},), lambda: 43) == 43
        wait_until(lambda: "SystemExit escaped" in caplog.text and "loop.stop()" in caplog.text)


async def note_async(_payload, call_next):
    return await call_next()


class Owner:
    """Runs a loop on a thread until it is told to end."""

    def __init__(self):
        self.begun = threading.Event()
        self.loop = asyncio.new_event_loop()
        self._is_running = True
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def serves(self, loop):
        return loop is self.loop and self._is_running

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # as when a loop is lost, nobody ends its tasks
        self._is_running = False
        self.loop.close()


class TestAroundACoroutine:
    def test_the_job_runs_on_the_loop_and_its_own_time_out_passes(self, note):
        async def job():
            assert threading.current_thread() is threading.main_thread()
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match="mine"):
            on_loop(note.mixed(), job)

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

    def test_adjacent_plain_entries_share_one_thread(self):
        threads = []

        def plain(_payload, call_next):
            threads.append(threading.get_ident())
            return call_next()

        async def job():
            return 42

        assert on_loop(Chain(plain, partial(plain)), job) == 42
        assert threads[0] == threads[1] != threading.get_ident()

    def test_many_jobs_at_once_wait_for_no_thread_that_another_holds(self, note):
        chain = note.mixed()

        async def job():
            await asyncio.sleep(0.01)
            return 1

        async def run():
            jobs = [chain.invoke_async(({},), job, executor) for _ in range(100)]
            return sum(await asyncio.wait_for(asyncio.gather(*jobs), 60))

        executor = ElasticExecutor("bridge")
        assert asyncio.run(run()) == 100
        executor.shutdown()

    def test_a_job_cancelled_before_its_thread_came_to_it_does_not_run(self):
        held, may_go_on, left = threading.Event(), threading.Event(), threading.Event()
        performed = []

        def holds(_payload, call_next):
            held.set()
            try:
                may_go_on.wait(10)
                return call_next()
            finally:
                left.set()

        async def job():
            performed.append(True)

        async def run():
            task = asyncio.create_task(Chain(holds).invoke_async(({},), job, executor))
            while not held.is_set():  # noqa: ASYNC110 - set on a thread
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            may_go_on.set()
            while not left.is_set():  # noqa: ASYNC110 - set on a thread
                await asyncio.sleep(0.001)

        executor = ElasticExecutor("bridge")
        asyncio.run(run())
        executor.shutdown()
        assert performed == []


class TestKinds:
    def test_a_chain_is_asynchronous_by_each_entry_that_has_an_async_call(self):
        class Tracing:
            async def __call__(self, _payload, call_next):
                return await call_next()

        entry = Tracing()
        chain = Chain(entry)
        assert chain.is_partly_async
        assert chain.invoke(({},), lambda: 42) == 42
        chain.remove(entry)
        assert not chain.is_partly_async


@pytest.mark.parametrize("owner", [bridge._Background(), None])
def test_a_chain_that_middleware_calls_on_a_loop_does_not_wait_for_that_loop(owner):
    """As of a push by `async def` middleware around a job: it waited for itself."""

    async def inner(call_next):
        return await call_next()

    async def outer(call_next):
        return [Chain(inner).invoke((), lambda: "pushed"), await call_next()]

    results = []

    def run():
        bridge.LOOP.set(owner)
        results.append(Chain(outer).invoke((), lambda: "done"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)  # seconds

    assert results == [["pushed", "done"]]
