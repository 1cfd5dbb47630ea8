"""A thread that cannot start leaves nothing half made: each place that makes threads, from a list.

`PLACES` names them all, and `test_the_list_names_each_place...` compares it with the source. A new place that makes its
thread while the process runs needs a case here; threads that begin with the worker are refused one by one in
tests/features/test_refused_threads.py.
"""

import ast
import asyncio
import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.failing_starts import NO_ROOM, FailingStarts, assert_begins_late
from support.waiting import wait_until

import kiqbridge
from kiqbridge.client import bridge, off_loop
from kiqbridge.engine.host import ending
from kiqbridge.engine.perform.run_marks import RunMarks
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.elastic_executor import ElasticExecutor
from kiqbridge.runtime.interruption import Timekeeper
from kiqbridge.runtime.logs.log_writer import LogWriter
from kiqbridge.runtime.role import LazyRole, unstarted
from kiqbridge.runtime.threads import BoundedCall
from kiqbridge.wire.keys import Keys

SOURCE = Path(kiqbridge.__file__).parent
MAKERS = {"Thread", "Timer", "ThreadPoolExecutor", "LazyRole"}


@pytest.fixture
def starts(monkeypatch):
    return FailingStarts(monkeypatch)


def limits():
    """A limit that was set while no thread could start counts as soon as one can."""
    keeper, ended = Timekeeper(lambda: [__name__]), threading.Event()

    def need():
        with keeper.limit(1000):
            pass

    yield keeper.thread, need

    def job():
        try:
            with keeper.limit(0.01):
                while True:
                    ended.wait(0.01)
        except JobTimeout:
            ended.set()

    threading.Thread(target=job, daemon=True).start()
    yield ended.is_set


def handlers():
    called, notifications = [], Notifications()
    yield notifications._thread, lambda: notifications.add([lambda: called.append(1)])
    yield lambda: len(called) == 3
    notifications.stop(5)


def run_marks():
    class Connection:
        def close(self):
            ended.set()

    ended = threading.Event()
    marks = RunMarks(Keys(""), connect=Connection, identity="a:1:b", cancel=print)
    yield marks, marks.wake
    marks.stop()
    yield ended.is_set


LAZY = {
    "runtime/interruption:Timekeeper.__init__": limits,
    "engine/settle/notifications:Notifications.__init__": handlers,
    "engine/perform/run_marks:RunMarks": run_marks,
}
"""A thread that begins when it is needed first: a place, and a generator that gives the role with what needs it, and
then whether its work is done."""


@pytest.mark.parametrize("place", LAZY)
def test_who_needs_a_thread_that_cannot_start_goes_on_and_it_starts_as_soon_as_it_can(
    starts, place, caplog
):
    assert_begins_late(starts, LAZY[place](), caplog)


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


def middleware_loop(starts):
    starts.refused = {"kiqbridge-middleware"}
    background, before = bridge._Background(), descriptors()
    for _ in range(5):
        with pytest.raises(RuntimeError, match=NO_ROOM):
            background.loop  # noqa: B018 - begins it
    assert descriptors() == before

    starts.refused.clear()

    loop = background.loop
    assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "done"), loop).result(30) == "done"
    loop.call_soon_threadsafe(loop.close)


def pushes_of_coroutines(starts):
    off_loop._forget()
    starts.refused, pushed = {"kiqbridge-push"}, []
    with pytest.raises(RuntimeError, match=NO_ROOM):
        asyncio.run(off_loop.off_loop(pushed.append, "failed"))

    starts.refused.clear()
    asyncio.run(off_loop.off_loop(pushed.append, "later"))

    assert pushed == ["later"], "what was said to have failed was pushed"


def middleware_threads(starts):
    starts.refused = {"spare"}
    executor, called = ElasticExecutor("spare"), []
    with pytest.raises(RuntimeError, match=NO_ROOM):
        executor.submit(called.append, "failed")

    starts.refused.clear()
    executor.submit(called.append, "later").result(30)

    assert called == ["later"]
    executor.shutdown()


def log_lines(starts):
    starts.refused = {"kiqbridge-log"}
    stream = io.StringIO()
    writer = LogWriter(stream)
    writer.write("one\n")
    assert starts.tried
    assert stream.getvalue() == "one\n"

    starts.refused.clear()
    writer.write("two\n")
    writer.write("three\n")

    wait_until(lambda: stream.getvalue() == "one\ntwo\nthree\n")
    assert writer._has_thread()
    writer.close()


def bounded_call(starts):
    starts.refused, called = {"spare"}, []
    assert BoundedCall("spare", lambda: called.append(1)).wait(0)
    assert called


def last_output(starts):
    starts.refused = {"kiqbridge-flush"}
    assert not ending.flush_output()
    assert starts.tried


def kernels_kill(starts, monkeypatch):
    starts.refused = {"kiqbridge-kill"}
    monkeypatch.setattr(ending, "_kernel_kills", lambda _within_s: False)
    monkeypatch.setattr(ending._deadline, "at", None)
    ending.kill_after(1000)  # within a signal handler: it must not raise
    assert starts.tried


OTHERS: dict[str, Callable[..., None]] = {
    "client/bridge:_Background.loop": middleware_loop,
    "client/off_loop:push_threads": pushes_of_coroutines,
    "runtime/elastic_executor:ElasticExecutor.submit": middleware_threads,
    "runtime/logs/log_writer:LogWriter._wake": log_lines,
    "runtime/threads:BoundedCall.__init__": bounded_call,
    "engine/host/ending:flush_output": last_output,
    "engine/host/ending:kill_after": kernels_kill,
}
"""Threads of other shapes that are made while the process runs."""


@pytest.mark.parametrize("place", OTHERS)
def test_a_thread_that_cannot_start_leaves_nothing_half_made(starts, place, monkeypatch):
    check = OTHERS[place]
    check(starts, monkeypatch) if check is kernels_kill else check(starts)


ELSEWHERE = {
    "commands/worker_command:_listen": "tests/kernel/process/test_ending.py: TERM without threads",
    "commands/worker_command:_run_until_stopped": "the process ends: nothing has begun",
    "commands/forked:SupervisorLink.watch": "the process of the supervisor ends, and gets a successor",
    "engine/host/status:StatusFile.__init__": "tests/features/test_refused_threads.py",
    "engine/liveness:BackgroundThread.start": "tests/features/test_refused_threads.py",
    "engine/perform/kept_loop:KeptLoop.__init__": "tests/features/test_refused_threads.py",
    "engine/perform/processor:Processor.__init__": "tests/features/test_refused_threads.py",
    "runtime/role:Role._new": "tests/features/test_refused_threads.py",
    "client/inline:_on_a_loop": "one call, which raises; nothing is kept",
    "client/inline:_run": "one call, which raises; nothing is kept",
    "dev/child_process:Command.__init__": "a command, which ends with the error, and its child before",
    "dev/end_inbox:EndInbox.listen": "a command, which ends with the error",
    "dev/invoke_api:InvokeApi.__init__": "a command, which ends with the error",
    "testing/loop_thread:LoopThread.__init__": "a test, which fails with the error",
}
"""Where the others are shown, or what happens: they begin with a process that ends, or are kept by nobody."""


def test_the_list_names_each_place_where_a_thread_is_made():
    found = set()
    for file in sorted(SOURCE.rglob("*.py")):
        places = _Places(file.relative_to(SOURCE).with_suffix("").as_posix())
        places.visit(ast.parse(file.read_text(encoding="utf-8")))
        found |= places.found

    of_features = {
        place for place in found if place.startswith("features/")
    }  # each in the tests of its own
    assert found - of_features == {*LAZY, *OTHERS, *ELSEWHERE}


class _Places(ast.NodeVisitor):
    """Functions that call one of `MAKERS`, and subclasses of `LazyRole`."""

    def __init__(self, module):
        self.found = set()
        self._module = module
        self._names = []

    def visit_ClassDef(self, node):
        if {_name(base) for base in node.bases} & {"LazyRole", "Thread"}:
            self._note(node.name)
        self._within(node)

    def visit_FunctionDef(self, node):
        self._within(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as above

    def visit_Call(self, node):
        if _name(node.func) in MAKERS:
            self._note()
        self.generic_visit(node)

    def _within(self, node):
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()

    def _note(self, *name):
        self.found.add(f"{self._module}:{'.'.join([*self._names, *name])}")


def _name(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class TestLazyRole:
    def test_one_that_is_needed_from_the_start_begins_with_the_process_and_another_with_wake(self):
        release = threading.Event()
        eager = LazyRole("eager", release.wait, without="nothing", from_start=lambda: True)
        lazy = LazyRole("lazy", release.wait, without="nothing")
        for role in (eager, lazy):
            role.start()
        assert (eager.runs, lazy.runs) == (True, False)
        assert lazy.alive, "it counts as ended though it has not begun"
        lazy.wake()
        assert lazy.runs
        release.set()

    def test_one_that_was_stopped_is_not_started_any_more(self, starts):
        starts.refused = {"kiqbridge-late"}
        role = LazyRole("late", print, without="nothing")
        role.wake()
        assert role in unstarted()

        role.stop()
        starts.refused.clear()
        role.wake()

        assert not role.runs
        assert role not in unstarted()
