"""Raising an error in another thread, and what takes too long."""

import contextlib
import logging
import queue
import socket
import subprocess
import threading
import time
from functools import partial

import pytest
from support.stacks import spin, wait_for_frame
from support.waiting import at_once, wait_until

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.frames import OURS
from kiqbridge.runtime.interruption import PENDING, Interruption, Timekeeper, checkpoint, settle
from kiqbridge.runtime.logs import handler_guard
from kiqbridge.runtime.logs.log_writer import LogWriter


class Interrupted(BaseException):
    pass


def own_logger():
    return logging.Logger("test")  # noqa: LOG001 - nobody else's handlers get its lines


def wait_for_a_queue():
    with contextlib.suppress(queue.Empty):
        queue.Queue().get(timeout=0.01)


class TestRaising:
    def test_a_query_fails_where_it_waits_and_its_lock_is_released(self, running, library):
        here, there = socket.socketpair()
        state = running(lambda: library.read(here))
        wait_for_frame(state, "read")
        interruption = Interruption(state.ident, Interrupted)

        wait_until(interruption.attempt, what="an attempt that succeeds")
        there.send(b"x")
        state.thread.join(10)

        assert type(state.error) is Interrupted
        assert library.LOCK.acquire(blocking=False)
        library.LOCK.release()
        here.close()
        there.close()

    @pytest.mark.parametrize(
        "wait",
        [
            lambda: threading.Event().wait(0.01),
            wait_for_a_queue,
            lambda: time.sleep(0.01),
            lambda: subprocess.run(["true"], check=True),
        ],
        ids=["event", "queue", "sleep", "subprocess"],
    )
    def test_a_job_that_does_nothing_but_wait_is_ended(self, running, wait):
        def work():
            with Timekeeper().limit(0.05):
                while True:
                    wait()

        state = running(work)
        state.thread.join(30)

        assert type(state.error).__name__ == "JobTimeout"

    def test_a_library_that_never_stops_computing_is_ended(self, running, library):
        def work():
            with Timekeeper().limit(0.05):
                library.compute([True])

        state = running(work)
        state.thread.join(30)
        assert type(state.error).__name__ == "JobTimeout"
        assert not Interruption(state.ident, Interrupted).attempt()  # a thread that has ended

    def test_what_is_not_wanted_any_more_is_not_raised(self, running):
        go_on, asked = [True], []
        state = running(spin, go_on)

        def is_wanted():
            asked.append(1)
            return False

        Timekeeper().interrupt(state.ident, Interrupted, is_wanted)
        wait_until(lambda: asked, what="the question whether it is wanted")
        wait_until(lambda: state.ident not in PENDING)
        go_on[0] = False
        state.thread.join(10)

        assert state.error is None


class TestCheckpoint:
    @pytest.fixture
    def pending(self):
        interruption = PENDING[threading.get_ident()] = Interruption(
            threading.get_ident(), Interrupted
        )
        yield interruption
        settle()

    def test_raises_what_is_pending_once_in_its_thread(self, pending):
        thread = threading.Thread(target=checkpoint)
        thread.start()
        thread.join()
        assert not pending.is_raised
        with pytest.raises(Interrupted):
            checkpoint()
        assert pending.is_raised
        checkpoint()

    @pytest.mark.parametrize("is_guarded", [False, True], ids=["python's", "a worker's"])
    def test_raises_at_the_end_of_a_log_line(self, pending, tmp_path, is_guarded, monkeypatch):
        monkeypatch.setattr(logging.Logger, "handle", handler_guard._of_logger)
        monkeypatch.setattr(logging.Logger, "callHandlers", handler_guard._of_handlers)
        if is_guarded:
            handler_guard.guard_handlers()
        with (tmp_path / "log").open("w") as stream:
            log = own_logger()
            handler = LogWriter(stream)
            log.addHandler(handler)

            with pytest.raises(Interrupted):
                log.warning("written")
            log.warning("and the next one")
            handler.close()

        assert (tmp_path / "log").read_text() == "written\nand the next one\n"
        assert pending.is_raised

    def test_raises_nothing_at_a_line_of_our_own(self, pending, tmp_path):
        from kiqbridge.runtime import user_code

        with (tmp_path / "log").open("w") as stream:
            log = own_logger()
            log.addHandler(LogWriter(stream))
            user_code.log_error(log, ValueError("x"), "one of our lines")

        assert not pending.is_raised

    def test_comes_again_where_our_own_code_goes_on_after_an_error_but_not_while_it_cleans_up(
        self, pending
    ):
        ours = {}
        source = """
def goes_on(call):
    try:
        call()
    except BaseException:
        pass

def cleans_up(call):
    try:
        call()
    except BaseException:
        call()
        raise
"""
        exec(compile(source, f"{OURS}store/sample.py", "exec"), ours)

        ours["goes_on"](checkpoint)
        with pytest.raises(Interrupted):
            ours["cleans_up"](checkpoint)
        ours["goes_on"](checkpoint)  # it has reached this test

        assert pending.is_raised
        checkpoint()


def test_a_job_that_logs_without_end_is_ended_and_no_lock_is_lost(running, tmp_path):
    log = own_logger()
    with (tmp_path / "log").open("w") as stream:
        handler = LogWriter(stream)
        log.addHandler(handler)
        timekeeper = Timekeeper()

        def work():
            for _ in range(20):
                with contextlib.suppress(Exception), timekeeper.limit(0.02):
                    while True:
                        log.info("a line of a chatty job with some text in it")

        began = time.monotonic()
        states = [running(work) for _ in range(4)]
        for state in states:
            state.thread.join(60)
            assert not state.thread.is_alive()
            assert state.error is None
        took = time.monotonic() - began
        log.warning("all locks are free")
        handler.close()

    assert took < 40
    assert (tmp_path / "log").read_text().endswith("all locks are free\n")
    assert PENDING == {}


def wait_in_python(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        threading.Event().wait(0.001)


@pytest.fixture
def timekeeper():
    return Timekeeper()


def test_what_takes_longer_is_ended_and_told_why(timekeeper):
    with timekeeper.limit(5):
        result = 42
    assert result == 42
    began = time.monotonic()
    with pytest.raises(JobTimeout, match=r"longer than its timeout_s of 0\.05 s"):  # noqa: SIM117
        with timekeeper.limit(0.05):
            wait_in_python(30)
    assert time.monotonic() - began < 10
    with pytest.raises(JobTimeout, match=r"^mine$"), timekeeper.limit(5):
        raise JobTimeout("mine")  # the job's own


def test_each_thread_has_its_own(timekeeper):
    outcomes = {}

    def run(name, limit, takes):
        try:
            with timekeeper.limit(limit):
                wait_in_python(takes)
            outcomes[name] = "done"
        except JobTimeout:
            outcomes[name] = "late"

    jobs = (("short", 20, 0.01), ("late", 0.05, 20), ("later", 0.1, 20))
    at_once(*(partial(run, *each) for each in jobs))

    assert outcomes == {"short": "done", "late": "late", "later": "late"}


def test_a_timeout_that_comes_at_the_last_instant_hits_no_later_job(timekeeper):
    for _ in range(200):
        with contextlib.suppress(JobTimeout), timekeeper.limit(0.002):
            wait_in_python(0.0019)
        wait_in_python(0.0005)  # the next job, without a limit: nothing may be raised here
