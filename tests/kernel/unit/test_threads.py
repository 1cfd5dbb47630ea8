"""Threads of the engine, and an executor that has one for each call."""

import ctypes
import logging
import os
import threading

import pytest
from support.processes import run_python
from support.waiting import wait_until

from kiqbridge.runtime import user_code
from kiqbridge.runtime.elastic_executor import ElasticExecutor
from kiqbridge.runtime.threads import keep_running, kept


class Panic(BaseException):
    """As that of a Rust extension."""


class Unreadable(Exception):  # noqa: N818 - named by what it is
    def __str__(self):
        raise SystemExit("in __str__")

    __repr__ = __str__


ESCAPES = [
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    MemoryError(),
    Panic("x"),
    Unreadable(),
    ValueError("x"),
]


def kept_as(name):
    return [each for each in kept() if each.name == name]


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda error: type(error).__name__)
def test_a_loop_goes_on_after_whatever_escapes_it(escape, caplog):
    ending = threading.Event()
    rounds = []

    def loop():
        rounds.append(len(rounds))
        if len(rounds) < 3:
            raise escape
        ending.wait(30)

    thread = threading.Thread(
        target=lambda: keep_running("test", loop, is_ending=ending.is_set, pause_s=0), daemon=True
    )
    thread.start()
    wait_until(lambda: len(rounds) == 3, what="the loop's third round")

    assert thread.is_alive()
    assert len(kept_as("test")) == 1
    assert caplog.text.count("an error ended the loop of thread test") == 2

    ending.set()
    thread.join(10)

    assert not thread.is_alive()
    assert kept_as("test") == []


def test_an_error_while_the_thread_is_ending_ends_it_and_a_fork_keeps_no_threads():
    left = []

    def loop():
        child = os.fork()
        if not child:
            os._exit(len(kept()))
        left.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        raise KeyboardInterrupt

    keep_running("test", loop, is_ending=lambda: True)
    assert left == [0]


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda error: type(error).__name__)
def test_what_a_users_function_raises_is_logged_and_ends_nothing(escape, caplog):
    def listener(_argument):
        raise escape

    answer = user_code.call(
        listener, 1, log=logging.getLogger("test"), failed="a listener to quiet failed"
    )

    assert answer is None
    assert "a listener to quiet failed" in caplog.text


def test_a_function_without_a_name_is_called_like_any_other(caplog):
    class Callable:
        def __call__(self):
            raise ValueError("x")

        def __repr__(self):
            raise SystemExit

    assert user_code.call(Callable(), log=logging.getLogger("test"), failed="it failed") is None
    assert "it failed" in caplog.text


def test_a_signal_that_another_thread_receives_is_handled_during_a_bounded_call():
    script = (
        "import signal, threading\n"
        "from kiqbridge.runtime.threads import BoundedCall\n"
        "handled = threading.Event()\n"
        "signal.signal(signal.SIGUSR1, lambda *_: handled.set())\n"
        "def receive(): signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)\n"
        "call = BoundedCall('waits', handled.wait)\n"
        "threading.Timer(0.3, receive).start()\n"
        "print(call.wait(20))\n"
    )

    assert run_python(script).stdout == "True\n"


@pytest.fixture
def executor():
    executor = ElasticExecutor("elastic")
    yield executor
    executor.shutdown()


def test_calls_that_wait_for_later_ones_all_end(executor):
    count = 100

    def wait_for_next(number):
        return executor.submit(wait_for_next, number + 1).result(60) if number < count else number

    assert executor.submit(wait_for_next, 0).result(60) == count


def test_an_idle_thread_is_used_again_and_an_error_is_for_whoever_waits(executor):
    def leave():
        raise SystemExit(3)

    first = executor.submit(threading.get_ident).result(10)
    wait_until(lambda: "1 idle" in repr(executor))
    assert executor.submit(threading.get_ident).result(10) == first
    with pytest.raises(SystemExit):
        executor.submit(leave).result(10)
    assert executor.submit(lambda: 42).result(10) == 42


def test_idle_threads_end_after_a_while():
    executor = ElasticExecutor("short", idle_s=0.01)
    thread = executor.submit(threading.current_thread).result(10)

    wait_until(lambda: not thread.is_alive())

    assert executor.submit(lambda: 42).result(10) == 42


def test_after_the_shutdown_idle_threads_end_and_nothing_is_taken(executor):
    thread = executor.submit(threading.current_thread).result(10)

    executor.shutdown()

    wait_until(lambda: not thread.is_alive())
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(print)


def test_an_exception_that_others_raise_in_an_idle_thread_loses_no_work():
    executor = ElasticExecutor("hit", idle_s=0.05)
    thread = executor.submit(threading.current_thread).result(10)
    wait_until(lambda: "1 idle" in repr(executor))
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )

    assert [executor.submit(lambda n=n: n).result(10) for n in range(50)] == list(range(50))
    wait_until(lambda: not thread.is_alive())  # it has been woken, and has ended in order
    assert executor.submit(lambda: 42).result(10) == 42
