"""Where an error may arrive in another thread: decided on real stacks of real threads."""

import logging
import os
import threading
import time
from types import SimpleNamespace

from support.stacks import frame_of, spin, wait_for_frame

from kiqbridge.runtime.landing import Landing, landing


def landings(state, looks=200):
    return {landing(frame_of(state)) for _ in range(looks) if time.sleep(0.0002) is None}


def test_a_users_own_code_is_safe(running):
    go_on = [True]
    state = running(spin, go_on)
    wait_for_frame(state, "spin")

    assert landings(state) == {Landing.SAFE}
    go_on[0] = False


def test_a_users_cleanup_and_a_librarys_own_exit_are_not(running, library):
    class Own:
        def __init__(self, go_on):
            self.go_on = go_on

        def __enter__(self):
            pass

        def __exit__(self, *_error):
            while self.go_on[0]:
                pass

    for manager in (Own, library.Manager):
        go_on = [True]

        def work(manager=manager, go_on=go_on):
            with manager(go_on):
                pass

        state = running(work)
        wait_for_frame(state, "__exit__")
        assert landings(state) == {Landing.UNSAFE}
        go_on[0] = False


def test_a_log_line_that_is_being_written_is_not(running):
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    log = logging.Logger("test")  # noqa: LOG001 - nobody else's handlers get its lines
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


def test_waiting_for_a_lock_by_hand_in_a_library_is_not(running, library):
    lock = threading.Lock()
    lock.acquire()
    state = running(lambda: library.take_by_hand(lock))
    wait_for_frame(state, "take_by_hand")

    assert landings(state, looks=20) == {Landing.UNSAFE}
    lock.release()


def test_computing_in_a_library_that_passes_errors_on_is_safe(running, library):
    go_on = [True]
    state = running(lambda: library.compute(go_on))
    wait_for_frame(state, "compute")

    assert landings(state) == {Landing.SAFE}
    go_on[0] = False


def test_computing_under_a_librarys_lock_is_not(running, library):
    go_on = [True]
    state = running(lambda: library.compute_under_lock(go_on))
    wait_for_frame(state, "compute_under_lock")

    # Where its call returns the `with` would release the lock; that it waits there is not seen once.
    assert Landing.SAFE not in landings(state)
    go_on[0] = False


def test_without_any_code_of_a_user_it_is_not():
    ready = threading.Event()
    thread = threading.Thread(target=ready.wait, daemon=True)
    thread.start()
    state = SimpleNamespace(ident=thread.ident)
    wait_for_frame(state, "wait")

    assert landing(frame_of(state)) is Landing.UNSAFE
    ready.set()
    thread.join()
