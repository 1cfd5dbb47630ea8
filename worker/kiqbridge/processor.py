"""One thread that performs jobs: fetch a chunk, run it job by job, settle what failed.

The promise is kept in three lines: a claim acknowledges only the chunk before it; `_work` begins
nothing under a lease in doubt; and what a chunk still holds when the thread leaves it is given back.
"""

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from kiqbridge.claims import Chunk
from kiqbridge.clock import lease_now, wall_now
from kiqbridge.errors import KiqbridgeError, RedisUnavailable, Shutdown
from kiqbridge.execution import JobRunner, Settlement
from kiqbridge.fetch import RETRY_S, Fetcher, Outage
from kiqbridge.job_logger import TID
from kiqbridge.keys import Keys
from kiqbridge.lease import LeaseKeeper
from kiqbridge.look_ahead import Guardian, next_size, take_unbegun
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict

logger = logging.getLogger(__name__)

TAKING_S = 0.001


class UnitOfWork(NamedTuple):
    """A running job: its queue, its text as fetched, and when it began (epoch seconds)."""

    queue: str
    text: bytes
    run_at: float


_TAKING = UnitOfWork("", b"", 0.0)
"""Stands for the job that a thread is about to take: it is in no one's hands for an instant."""


class Tools(NamedTuple):
    """What all processors of a process share."""

    keeper: LeaseKeeper
    runner: JobRunner
    guardian: Guardian
    outage: Outage
    keys: Keys
    dead_bounds: Callable[[float], tuple[float, int]]
    look_ahead: int


class Processor:
    """A processor thread.

    Attributes:
        chunk: the jobs that wait here.
        processed, failed: how many so far; only ever counted up, and only by this thread.
        performing: user code is running now.
    """

    def __init__(self, tid: str, fetcher: Fetcher, tools: Tools) -> None:
        self.tid = tid
        self._current: UnitOfWork | None = None
        self.chunk: Chunk | None = None
        self.began_at = 0.0
        self.processed = 0
        self.failed = 0
        self.performing = False
        self._fetcher = fetcher
        self._tools = tools
        self._size = 1
        self._quiet = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kiqbridge-{tid}", daemon=True)

    def __repr__(self) -> str:
        state = "busy" if self._current else "idle"
        return f"<Processor {self.tid} {state}, {self.processed} processed, {self.failed} failed>"

    @property
    def current(self) -> UnitOfWork | None:
        """The running job."""
        current = self._current
        return None if current is _TAKING else current

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to fetch."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(timeout_s)

    def quiet(self) -> None:
        """Begin no further job; the running one may finish. The idle gate is opened by the manager."""
        self._quiet = True

    def unfinished(self) -> list[bytes]:
        """Texts of the waiting jobs and the running one, newest first; the waiting are taken out."""
        chunk = self.chunk
        waiting = take_unbegun(chunk) if chunk else []
        while (current := self._current) is _TAKING:
            time.sleep(TAKING_S)  # the thread is between two lines; it will have the job, or none
        return [*waiting, current.text] if current else waiting

    def interrupt(self) -> None:
        """Raise `Shutdown` in the running job; to be called after it was given back."""
        self._abandoned.set()
        if self.performing and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(Shutdown)
            )

    def acknowledge(self, connection: RedisConnection) -> None:
        """Acknowledge what this thread finished, from another one, after `unfinished` went back."""
        self._fetcher.claimer.acknowledge_for(connection)

    def _run(self) -> None:
        TID.set(self.tid)
        with contextlib.suppress(Shutdown):
            while not self._quiet:
                chunk = self._fetcher.fetch(self._size, self._abandoned)
                if chunk is not None:
                    self._work_safely(chunk)
            self._fetcher.acknowledge(self._abandoned)

    def _work_safely(self, chunk: Chunk) -> None:
        self.chunk = chunk
        try:
            self._work(chunk)
        except Exception:
            # Ours, not the job's: jobs' errors are settled. Nothing here may be acknowledged.
            logger.exception("internal error; the jobs of this thread are given back")
            self._abandoned.wait(RETRY_S)
            self._give_back(chunk)
        finally:
            self._current = None
            self.chunk = None

    def _work(self, chunk: Chunk) -> None:
        lease, jobs, tools = chunk.lease, chunk.jobs, self._tools
        if chunk.size > 1:
            tools.guardian.watch()
        longest = 0.0
        first = now = lease_now()
        while not self._all_done(chunk):
            if (lease.lost or now > lease.valid_until) and not tools.keeper.confirm(lease):
                if not lease.lost:
                    # The process ends while Redis is away: what waits here is still ours, and an
                    # acknowledgement that reaches Redis after all would lose it.
                    raise Shutdown
                jobs.clear()
                return
            self._current = _TAKING
            try:
                text = jobs.pop()
            except IndexError:
                self._current = None
                continue
            self.began_at = now
            self._current = UnitOfWork(chunk.queue, text, wall_now())
            self._perform(chunk, text)
            self._current = None
            began, now = now, lease_now()
            longest = max(longest, now - began)
        self._size = next_size(
            self._size,
            chunk_s=now - first,
            longest_s=longest,
            full=chunk.size == self._size,
            limit=tools.look_ahead,
        )

    def _all_done(self, chunk: Chunk) -> bool:
        """Whether nothing of a chunk is left to run here; when quiet it is given back first."""
        if self._quiet:
            self._give_back(chunk)
        if chunk.jobs:
            return False
        # A guardian or the manager may hold jobs that it is giving back, or could not because Redis is
        # away; the next claim deletes the list, so it must not come before that is done.
        with chunk.lock:
            if chunk.leaving:
                self._insist(lambda: self._fetcher.claimer.give_back(chunk, ()))
            return not chunk.jobs

    def _perform(self, chunk: Chunk, text: bytes) -> None:
        try:
            settlement = self._tools.runner.run(text, chunk.queue, self)
        except Shutdown:
            self.processed += 1
            self.failed += 1
            raise
        if settlement is None:
            self.processed += 1
            return
        if settlement.counted:
            self.processed += 1
            self.failed += 1
        self._settle(chunk, text, settlement)

    def _settle(self, chunk: Chunk, text: bytes, settlement: Settlement) -> None:
        if settlement.verdict is Verdict.DROP:
            return
        keys = self._tools.keys
        target: str = keys.retry
        trim: tuple[float, ...] = ()
        if settlement.verdict is Verdict.DEAD:
            target, trim = keys.dead, self._tools.dead_bounds(settlement.score)
        if not self._insist(
            lambda: self._fetcher.claimer.settle(
                chunk, text, target, settlement.score, settlement.text, *trim
            )
        ):
            logger.warning("a failed job was not ours any more; whoever has it decides about it")

    def _give_back(self, chunk: Chunk) -> None:
        with chunk.lock:
            chunk.leaving += self.unfinished()
            self._insist(lambda: self._fetcher.claimer.give_back(chunk, ()))

    def _insist(self, write: Callable[[], object]) -> object:
        """Repeat a write until Redis has taken it: before that nothing may be acknowledged."""
        while True:
            try:
                return write()
            except RedisUnavailable as error:
                self._tools.outage.report(error)
            except KiqbridgeError:
                logger.exception("Redis refuses to take a job; trying again, it stays in-flight")
            if self._abandoned.wait(RETRY_S):
                raise Shutdown
