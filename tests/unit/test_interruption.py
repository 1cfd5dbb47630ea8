"""Where an error may rise in another thread: decided on real stacks of real threads."""

import contextlib
import importlib
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge import landing as landing_module
from kiqbridge.interruption import PENDING, Interruption, checkpoint, settle
from kiqbridge.landing import Kind, Landing, kind_of, landing, trust
from kiqbridge.limits import Timekeeper
from kiqbridge.log_writer import LogWriter

LIBRARY = """
import threading, time

LOCK = threading.Lock()

def read(sock):
    with LOCK:
        return sock.recv(1)

def take_by_hand(lock):
    lock.acquire()
    try:
        pass
    finally:
        lock.release()

def compute(go_on):
    while go_on[0]:
        sum(range(10))

def compute_under_lock(go_on):
    with LOCK:
        while go_on[0]:
            sum(range(10))

class Manager:
    def __init__(self, go_on):
        self.go_on = go_on
    def __enter__(self):
        pass
    def __exit__(self, *args):
        while self.go_on[0]:
            pass

"""


class Interrupted(BaseException):
    pass


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed package."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "some_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("some_library")
    del sys.modules["some_library"]


@pytest.fixture
def running():
    """`running(function, *args)` runs it on a thread; the state has its ident and what it raised."""
    threads = []

    def start(function, *args):
        state = SimpleNamespace(error=None, result=None)

        def run():
            try:
                state.result = function(*args)
            except BaseException as error:  # noqa: BLE001 - it is what is looked at
                state.error = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        state.thread, state.ident = thread, thread.ident
        threads.append(thread)
        return state

    yield start
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def frame_of(state):
    return sys._current_frames()[state.ident]


def wait_for_frame(state, *names):
    """Until the innermost function is called so."""
    wait_until(lambda: frame_of(state).f_code.co_name in names, what=f"a frame of {names}")


def landings(state, looks=200):
    return {landing(frame_of(state)) for _ in range(looks) if time.sleep(0.0002) is None}


def own_logger():
    return logging.Logger("test")  # noqa: LOG001 - nobody else's handlers get its lines


def spin(go_on):
    while go_on[0]:
        pass


class TestWhoseCodeAFileIs:
    @pytest.mark.parametrize(
        ("file", "kind"),
        [
            (__file__, Kind.USER),
            (landing_module.__file__, Kind.OURS),
            (logging.__file__, Kind.LOGGING),
            (threading.__file__, Kind.LOCKING),
            (queue.__file__, Kind.LOCKING),
            (contextlib.__file__, Kind.LOCKING),
            ("<frozen importlib._bootstrap>", Kind.LOCKING),
            (socket.__file__, Kind.LIBRARY),
            ("/venv/lib/python3.11/site-packages/redis/connection.py", Kind.LOCKING),
            ("/venv/lib/python3.11/site-packages/requests/api.py", Kind.LIBRARY),
            ("/usr/lib/python3/dist-packages/yaml/__init__.py", Kind.LIBRARY),
            ("<string>", Kind.LIBRARY),
            ("/app/jobs.py", Kind.USER),
        ],
    )
    def test_is_told_by_where_it_lies(self, file, kind):
        assert kind_of(file) is kind

    def test_an_installed_package_that_declares_jobs_is_the_users(self, library):
        assert kind_of(library.__file__) is Kind.LIBRARY

        trust(["some_library.Manager", "kiqbridge.job.Job", "threading"])

        assert kind_of(library.__file__) is Kind.USER
        landing_module._homes.clear()
        kind_of.cache_clear()


class TestLanding:
    def test_a_users_own_code_is_safe(self, running):
        go_on = [True]
        state = running(spin, go_on)
        wait_for_frame(state, "spin")

        assert landings(state) == {Landing.SAFE}
        go_on[0] = False

    def test_a_users_cleanup_is_not(self, running):
        class Manager:
            def __enter__(self):
                pass

            def __exit__(self, *_error):
                while go_on[0]:
                    pass

        def work():
            with Manager():
                pass

        go_on = [True]
        state = running(work)
        wait_for_frame(state, "__exit__")

        assert landings(state) == {Landing.UNSAFE}
        go_on[0] = False

    def test_a_log_line_that_is_being_written_is_not(self, running):
        reader, writer = os.pipe()
        stream = os.fdopen(writer, "w")
        log = own_logger()
        log.addHandler(logging.StreamHandler(stream))
        line = "x" * 1_000_000  # more than a pipe holds

        state = running(log.warning, line)
        wait_for_frame(state, "emit", "flush")

        assert landings(state, looks=20) == {Landing.UNSAFE}
        left = len(line) + 1
        while left:
            left -= len(os.read(reader, left))
        state.thread.join(10)
        stream.close()
        os.close(reader)

    def test_waiting_for_a_lock_by_hand_in_a_library_is_not(self, running, library):
        lock = threading.Lock()
        lock.acquire()
        state = running(lambda: library.take_by_hand(lock))
        wait_for_frame(state, "take_by_hand")

        assert landings(state, looks=20) == {Landing.UNSAFE}
        lock.release()

    def test_computing_in_a_library_that_passes_errors_on_is_safe(self, running, library):
        go_on = [True]
        state = running(lambda: library.compute(go_on))
        wait_for_frame(state, "compute")

        assert landings(state) == {Landing.SAFE}
        go_on[0] = False

    def test_computing_under_a_librarys_lock_is_not(self, running, library):
        go_on = [True]
        state = running(lambda: library.compute_under_lock(go_on))
        wait_for_frame(state, "compute_under_lock")

        # Where its call returns the `with` would release the lock; that it waits there is not seen once.
        assert Landing.SAFE not in landings(state)
        go_on[0] = False

    def test_a_librarys_own_exit_is_not(self, running, library):
        def work():
            with library.Manager(go_on):
                pass

        go_on = [True]
        state = running(work)
        wait_for_frame(state, "__exit__")

        assert landings(state) == {Landing.UNSAFE}
        go_on[0] = False

    def test_without_any_code_of_a_user_it_is_not(self):
        ready = threading.Event()
        thread = threading.Thread(target=ready.wait, daemon=True)
        thread.start()
        state = SimpleNamespace(ident=thread.ident)
        wait_for_frame(state, "wait")

        assert landing(frame_of(state)) is Landing.UNSAFE
        ready.set()
        thread.join()


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

    def test_a_thread_that_has_ended_is_left_alone(self, running):
        state = running(int)
        state.thread.join()

        assert not Interruption(state.ident, Interrupted).attempt()

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

    def test_raises_what_is_pending_in_the_code_of_a_user(self, pending):
        with pytest.raises(Interrupted):
            checkpoint()
        assert pending.is_raised
        checkpoint()  # once

    def test_raises_at_the_end_of_a_log_line(self, pending, tmp_path):
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
        from kiqbridge import user_code

        with (tmp_path / "log").open("w") as stream:
            log = own_logger()
            log.addHandler(LogWriter(stream))
            user_code.log_error(log, ValueError("x"), "one of our lines")

        assert not pending.is_raised

    def test_raises_nothing_in_another_thread(self, pending):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(checkpoint()))
        thread.start()
        thread.join()

        assert seen == [None]
        assert not pending.is_raised


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
