"""The run lock of a process: threads perform chunks of short jobs one after another.

CPython runs one thread at a time. If all threads perform short jobs at once, one of them loses the interpreter lock
inside a lock that the jobs take (a logger's, a file's, a connection pool's), the next one waits there, and from then on
every job is handed over at that lock: a lock convoy (docs/decisions/0015-run-lock.md).

1. One thread has the run lock and performs its chunk, one watches it, all others sleep.
2. Who watches looks each millisecond. If the running job has taken longer than the interpreter's own switch interval, or
   if at three looks the thread has used the processor for less than half of the time, it waits or has died: the
   watcher takes over.
3. Jobs of a queue that were found waiting do not take the lock for half a second.

So nothing depends on the lock being released, and no job waits longer for it than for the interpreter lock.
"""

import sys
import threading
import time
from typing import Final, NamedTuple, Protocol

from kiqbridge.runtime.clock import lease_now

FROM_JOBS: Final = 8
"""Chunks of so many jobs take the lock: those before them have shown that the jobs are short."""

LOOK_S: Final = 0.001
LOOKS: Final = 3
"""One alone may be the system's fault."""

WAITS_S: Final = 0.5
"""For how long a queue does without the lock after its jobs were seen waiting."""

BUSY_SHARE: Final = 0.5
"""Of the time, for which a thread uses the processor if its jobs do not wait."""

_is_known = hasattr(time, "pthread_getcpuclockid")
"""Whether the system reports the CPU time of another thread; without it no thread takes the lock."""


class Performing(Protocol):
    """What is seen of a thread that performs."""

    began_at: float
    """On `lease_now`, when the running job began."""


class _Runner(NamedTuple):
    performing: Performing
    queue: str
    clock: int


class RunLock:
    """Who of a process runs short jobs now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching = threading.Lock()
        self._runner: _Runner | None = None
        self._waits_until: dict[str, float] = {}

    def take(self, performing: Performing, queue: str) -> "threading.Lock | None":
        """Wait until no thread runs short jobs.

        Returns what is to be released after the chunk, a lock of its own, so that a thread that was passed by releases
        no other thread's; None: jobs of this queue do not take it now.
        """
        if not _is_known or self._waits(queue):
            return None
        lock = self._lock
        if not lock.acquire(blocking=False):
            with self._watching:
                watched = self._watch(queue)
            if watched is None:
                return None
            lock = watched
        self._runner = _Runner(performing, queue, time.pthread_getcpuclockid(threading.get_ident()))
        return lock

    def _waits(self, queue: str) -> bool:
        until = self._waits_until.get(queue)
        return until is not None and lease_now() < until

    def _watch(self, queue: str) -> "threading.Lock | None":
        seen: _Runner | None = None
        since = used_s = 0.0
        idle_looks = 0
        while not self._waits(queue):
            lock = self._lock
            if lock.acquire(timeout=LOOK_S):
                return lock
            runner, now = self._runner, lease_now()
            if runner is None or now - runner.performing.began_at > sys.getswitchinterval():
                return self._renewed()
            used_before_s, used_s = used_s, _used_s(runner)
            if seen is not runner or used_s - used_before_s >= BUSY_SHARE * (now - since):
                idle_looks = 0
            elif (idle_looks := idle_looks + 1) == LOOKS:
                self._waits_until[runner.queue] = now + WAITS_S
                return self._renewed()
            seen, since = runner, now
        return None

    def _renewed(self) -> "threading.Lock":
        """A new lock, taken; the thread that holds the former one goes on beside it."""
        self._lock = lock = threading.Lock()
        lock.acquire()
        return lock


def _used_s(runner: _Runner) -> float:
    """Seconds for which its thread has used the processor; 0 if it has ended."""
    try:
        return time.clock_gettime(runner.clock)
    except OSError:
        return 0.0


RUN_LOCK: Final = RunLock()
"""The one of this process, as its interpreter lock is one."""
