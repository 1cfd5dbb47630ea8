"""An executor in which nothing that is submitted waits for another."""

import ctypes
import threading

import pytest
from support.waiting import wait_until

from kiqbridge.runtime.elastic_executor import ElasticExecutor


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


def test_an_idle_thread_is_used_again(executor):
    first = executor.submit(threading.get_ident).result(10)
    wait_until(lambda: "1 idle" in repr(executor))

    assert executor.submit(threading.get_ident).result(10) == first


def test_an_error_is_for_whoever_waits(executor):
    def leave():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        executor.submit(leave).result(10)
    assert executor.submit(lambda: 42).result(10) == 42


def test_idle_threads_end_after_a_while():
    executor = ElasticExecutor("short", idle_s=0.01)
    thread = executor.submit(threading.current_thread).result(10)

    wait_until(lambda: not thread.is_alive())

    assert executor.submit(lambda: 42).result(10) == 42


def test_a_call_that_is_cancelled_before_it_begins_does_not_run(executor):
    may_end = threading.Event()
    try:
        running = executor.submit(may_end.wait, 30)

        assert not running.cancel()
    finally:
        may_end.set()


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
