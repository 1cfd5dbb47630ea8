"""Jobs that leave their marks outside Redis: one line per event, appended in one write.

`begun` gets `JID PID TIME` when a job begins, `performed` when it has done its work, `failed` when
it raises on purpose, `interrupted` when the worker ended it. The folder is named by MARKS; the time is
that of the monotonic clock, which all processes share.
"""

import contextlib
import mmap
import os
import signal
import threading
import time
from pathlib import Path

from kiqbridge import Job

FOLDER = Path(os.environ["MARKS"])
FREEZE_AFTER = int(os.environ.get("FREEZE_AFTER", "0"))
"""After so many jobs the process freezes itself once all its threads are in the midst of one."""

FREEZE_THREADS = int(os.environ.get("FREEZE_THREADS", "0"))


def opened(name: str) -> int:
    return os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


BEGUN, PERFORMED, FAILED = opened("begun"), opened("performed"), opened("failed")
INTERRUPTED = opened("interrupted")


def mark(file: int, jid: str) -> None:
    os.write(file, f"{jid} {os.getpid()} {time.monotonic():.3f}\n".encode())


def opened_counts() -> mmap.mmap | None:
    path = FOLDER / "counts"
    if not path.exists():
        return None
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)  # shared: the kernel keeps it when the process is killed


COUNTS = opened_counts()


class Trap:
    """Freezes the process at an instant at which each thread is inside a job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = 0
        self._caught = 0
        self._woken = threading.Event()

    def step(self) -> None:
        if self._woken.is_set():
            return
        with self._lock:
            self._begun += 1
            if self._begun <= FREEZE_AFTER:
                return
            self._caught += 1
            is_last = self._caught == FREEZE_THREADS
        if is_last:
            # At this thread, which stands still before it does anything else; a signal at the process
            # may be taken by another thread while this one runs on.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            self._woken.set()
        else:
            self._woken.wait(60)


TRAP = Trap()


class Mark(Job):
    """Works for so many milliseconds."""

    def perform(self, work_ms: float) -> None:
        mark(BEGUN, self.jid)
        if FREEZE_THREADS:
            TRAP.step()
        if work_ms:
            time.sleep(work_ms / 1000)  # the work: it is killed within
        mark(PERFORMED, self.jid)


class Work(Job):
    """Works for so many milliseconds, in steps between which it can be interrupted."""

    def perform(self, work_ms: float) -> None:
        mark(BEGUN, self.jid)
        until = time.monotonic() + work_ms / 1000
        try:
            while time.monotonic() < until:
                time.sleep(0.01)  # a step of the work
        except BaseException:
            mark(INTERRUPTED, self.jid)
            raise
        mark(PERFORMED, self.jid)


class Count(Job):
    """Does nothing but count itself: one byte per job in the file `counts`, for millions of them."""

    def perform(self, number: int) -> None:
        COUNTS[number] += 1


class CountFailing(Job):
    """As `Count`, and fails each time but the last."""

    retry = 3

    def perform(self, number: int, failures: int) -> None:
        COUNTS[number] += 1
        if COUNTS[number] <= failures:
            raise RuntimeError(f"job {number} fails, as asked")


class FailOnce(Job):
    """Raises when it runs for the first time, wherever that is."""

    retry = 3

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        try:
            os.close(os.open(FOLDER / f"failed-{self.jid}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            mark(PERFORMED, self.jid)
            return
        mark(FAILED, self.jid)
        raise RuntimeError("the first time fails, as asked")


class Saboteur(Job):
    """Kills the server when it runs for the first time, and works on, deaf to being interrupted."""

    def perform(self, server_pid: int, work_s: float) -> None:
        mark(BEGUN, self.jid)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(FOLDER / "sabotaged", os.O_CREAT | os.O_EXCL))
            os.kill(server_pid, signal.SIGKILL)
            deadline = time.monotonic() + work_s
            while time.monotonic() < deadline:
                with contextlib.suppress(BaseException):  # as a bare `except` in somebody's job
                    time.sleep(0.02)
        mark(PERFORMED, self.jid)


class Hold(Job):
    """Works until the file `release` is there."""

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        while not (FOLDER / "release").exists():
            time.sleep(0.01)
        mark(PERFORMED, self.jid)
