"""Threads whose stacks are looked at: in a test's own functions, and in an installed library."""

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace

import pytest

from support.waiting import wait_until

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


@contextmanager
def installed_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package that lies where installed ones do."""
    packages = folder / "site-packages"
    packages.mkdir()
    (packages / "some_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(packages))
    yield importlib.import_module("some_library")
    del sys.modules["some_library"]


@contextmanager
def running_threads() -> Iterator[Callable[..., SimpleNamespace]]:
    """A function that runs another one on a thread; the state has its ident and what it raised."""
    threads = []

    def start(function: Callable[..., object], *args: object) -> SimpleNamespace:
        state = SimpleNamespace(error=None, result=None)

        def run() -> None:
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


def frame_of(state: SimpleNamespace) -> FrameType:
    return sys._current_frames()[state.ident]


def wait_for_frame(state: SimpleNamespace, *names: str) -> None:
    """Until the innermost function is called so."""
    wait_until(lambda: frame_of(state).f_code.co_name in names, what=f"a frame of {names}")


def spin(go_on: list[bool]) -> None:
    while go_on[0]:
        pass
