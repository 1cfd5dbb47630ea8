"""Jobs that kill the process which runs them; to be loaded beside `marking.py`."""

import ctypes
import os
import signal
import time
from pathlib import Path

from marking import BEGUN, mark

from kiqbridge import Job


class Segfault(Job):
    """Sends itself SIGSEGV."""

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)  # never over: the signal ends it


class NullPointer(Job):
    """Reads what is at address 0."""

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        ctypes.string_at(0)


class KillsItsWorker(Job):
    """Kills the worker, whether it runs there or in a child of it."""

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        is_child = (
            b"kiqbridge.features.process_pool.job_child" in Path("/proc/self/cmdline").read_bytes()
        )
        os.kill(os.getppid() if is_child else os.getpid(), signal.SIGKILL)
        time.sleep(60)  # never over: the signal ends it


class Raises(Job):
    """Raises."""

    def perform(self) -> None:
        mark(BEGUN, self.jid)
        raise ValueError("as asked")
