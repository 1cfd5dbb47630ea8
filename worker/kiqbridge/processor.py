"""One thread that performs jobs: fetch a chunk, run it job by job, settle what failed.

The promise is kept in three lines: a claim acknowledges only the chunk before it; `_work` begins
nothing under a lease in doubt; and what a chunk still holds when the thread leaves it is given back.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kiqbridge import threads, user_code
from kiqbridge.bookkeeping import Bookkeeper
from kiqbridge.bridge import LOOP
from kiqbridge.claims import Chunk, Elsewhere, acknowledge, give_back
from kiqbridge.clock import lease_now, wall_now
from kiqbridge.current import RUNTIME, Runtime
from kiqbridge.errors import KiqbridgeError, RedisUnavailable, Shutdown
from kiqbridge.event_loop import EventLoop
from kiqbridge.execution import Execution, JobRunner, Settlement
from kiqbridge.fetch import RETRY_S, Fetches, Outage
from kiqbridge.job_logger import TID
from kiqbridge.keys import Keys
from kiqbridge.lease import LeaseKeeper
from kiqbridge.look_ahead import Guardian, next_size, take_unbegun
from kiqbridge.process_pool import ProcessPool
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict
from kiqbridge.settling import Settler, Tell
from kiqbridge.work import UnitOfWork

logger = logging.getLogger(__name__)

TAKING_S = 0.001
TAKING_MOST_S = 2.0
"""How long a thread is waited for that is between two lines; the machine may be busy."""


_TAKING = UnitOfWork("", b"", 0.0)
"""Stands for the job that a thread is about to take: it is in no one's hands for an instant."""


class Tools(NamedTuple):
    """What all processors of a capsule share."""

    keeper: LeaseKeeper
    runner: JobRunner
    guardian: Guardian
    outage: Outage
    keys: Keys
    settler: Settler
    look_ahead: int
    loop: EventLoop | None = None
    bookkeeper: Bookkeeper | None = None
    runtime: Runtime | None = None
    processes: ProcessPool | None = None


class Processor:
    """A processor thread.

    Attributes:
        chunk: the jobs that wait here.
        processed, failed: how many so far; only ever counted up, and only by this thread.
        performing: user code is running now.
    """

    def __init__(self, tid: str, fetcher: Fetches, tools: Tools) -> None:
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
        self._done: list[bytes] = []
        self._quiet = False
        self._taken: UnitOfWork | None = None
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

    @property
    def has_fetched(self) -> bool:
        """Whether a claim has succeeded, whether or not it brought jobs."""
        return self._fetcher.has_fetched

    @property
    def refused(self) -> BaseException | None:
        """The unexpected error of the first claim, if it raised one."""
        return self._fetcher.refused

    @property
    def holds_what_it_knows(self) -> bool:
        """Whether no job is between the chunk and `current`.

        If its thread has ended there, the next acknowledgement under its claimer would lose that job.
        """
        return self._current is not _TAKING

    @property
    def interrupted(self) -> bool:
        """Whether the running job was given back, or taken away, and is to end because of it."""
        taken = self._taken
        return self._abandoned.is_set() or (taken is not None and taken is self._current)

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
        until = time.monotonic() + TAKING_MOST_S
        while (current := self._current) is _TAKING:
            if time.monotonic() > until:
                logger.warning(
                    "thread %s does not say which job it has; that one stays in flight, and goes back to "
                    "its queue with the lease",
                    self.tid,
                )
                return waiting
            time.sleep(TAKING_S)  # the thread is between two lines; it will have the job, or none
        return [*waiting, current.text] if current else waiting

    def interrupt(self) -> None:
        """Raise `Shutdown` in the running job; to be called after it was given back."""
        self._abandoned.set()
        if self._tools.processes is not None:
            self._tools.processes.interrupt(self)
        if self.performing and self._thread.ident is not None:
            self._tools.runner.interrupt(self._thread.ident, self)

    def holding(self) -> Iterator[tuple[str, Chunk, UnitOfWork]]:
        """The running job as (id, its chunk, the job), if there is one."""
        chunk, unit = self.chunk, self.current
        if chunk is not None and unit is not None and self.chunk is chunk:
            yield self.tid, chunk, unit

    def end_one(self, _tid: str, unit: UnitOfWork) -> None:
        """Interrupt this job, which was taken away; the thread goes on with others."""
        self._taken = unit
        if self._tools.processes is not None:
            self._tools.processes.end_one(self)
        if self._thread.ident is not None:
            self._tools.runner.interrupt(
                self._thread.ident, self, is_wanted=lambda: self._current is unit
            )

    def acknowledge(self, connection: RedisConnection) -> None:
        """Acknowledge what this thread finished, from another one, after `unfinished` went back."""
        chunk = self.chunk
        if chunk is None or chunk.elsewhere is None:
            self._fetcher.acknowledge_for(connection)
        elif self._done:
            acknowledge(connection, self._tools.keys, [(chunk, text) for text in self._done])

    def _run(self) -> None:
        TID.set(self.tid)
        RUNTIME.set(self._tools.runtime)
        if self._tools.loop is not None:
            LOOP.set(self._tools.loop)
        threads.keep_running(
            f"processor {self.tid}",
            self._serve,
            is_ending=self._abandoned.is_set,
            wait=self._abandoned.wait,
            performs_jobs=True,
        )

    def _serve(self) -> None:
        with contextlib.suppress(Shutdown):  # ours: those of jobs are settled
            left = self.chunk
            if left is not None:  # an error of ours has escaped; the next claim would lose its jobs
                self._return(left)
            while not self._quiet:
                threads.beat()
                chunk = self._fetcher.fetch(self._size, self._abandoned)
                if chunk is not None:
                    self._work_safely(chunk)
            self._fetcher.acknowledge(self._abandoned)

    def _work_safely(self, chunk: Chunk) -> None:
        self.chunk = chunk
        try:
            self._work(chunk)
        except Shutdown:
            # The chunk may hold jobs still, which the next claim under its claimer, by whatever thread,
            # would acknowledge.
            self._current = None
            self.chunk = None
            raise
        except BaseException as error:  # noqa: BLE001 - no error may cost the jobs that wait here
            # Ours, not the job's: jobs' errors are settled. Nothing here may be acknowledged.
            user_code.log_error(
                logger, error, "internal error; the jobs of this thread are given back"
            )
            current = self.current
            self._tools.runner.report(
                error, {"context": "internal error", "jobstr": current.text if current else b""}
            )
            self._abandoned.wait(RETRY_S)
            self._return(chunk)
        else:
            self._leave(chunk)

    def _return(self, chunk: Chunk) -> None:
        """Give back what an error of ours has left in a chunk, the running job included."""
        self._give_back(chunk)
        self._settle_failed(chunk)
        self._leave(chunk)

    def _leave(self, chunk: Chunk) -> None:
        self._current = None
        if chunk.elsewhere is not None:
            self._part_with(chunk, chunk.elsewhere)
        self.chunk = None  # last: after an error up to here the chunk is left once more

    def _part_with(self, chunk: Chunk, elsewhere: Elsewhere) -> None:
        """Leave a chunk to the event loop; what was done here is acknowledged by itself."""
        bookkeeper = self._tools.bookkeeper
        if bookkeeper is not None:
            for text in self._done:
                elsewhere.hold()
                bookkeeper.ended(chunk, text, None)
        self._fetcher.part_with(chunk)

    def _work(self, chunk: Chunk) -> None:  # noqa: C901 - each further call is made for each job
        lease, jobs, tools = chunk.lease, chunk.jobs, self._tools
        self._done = done = []
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
                self._settle_failed(chunk)  # those that were given to others stay theirs
                return
            self._current = _TAKING
            try:
                text = jobs.pop()
            except BaseException as error:
                self._current = None
                if isinstance(error, IndexError):
                    continue
                raise
            try:
                self.began_at = now
                self._current = UnitOfWork(chunk.queue, text, wall_now())
            except BaseException:
                jobs.append(text)  # to be given back with the others
                self._current = None
                raise
            try:
                if self._perform(chunk, text):
                    done.append(text)
            except Shutdown:
                if self._abandoned.is_set():
                    raise
                # This job alone was interrupted. If it was not taken away before, it goes back now:
                # `_all_done` insists on that.
                with chunk.lock:
                    chunk.leaving.append(text)
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
                self._insist(
                    lambda: give_back(self._fetcher.connection, self._tools.keys, chunk, ())
                )
            told = self._write_failed(chunk)
            is_done = not chunk.jobs
        for tell in told:
            tell()
        return is_done

    def _perform(self, chunk: Chunk, text: bytes) -> bool:
        """Run a job, or leave it to the event loop; whether it waits for nothing but acknowledgement."""
        tools = self._tools
        execution = tools.runner.begin(text, chunk.queue)
        if isinstance(execution, Settlement):
            settlement: Settlement | None = execution
        else:
            definition, loop = execution.definition, tools.loop
            pool = "thread" if definition is None else definition.handling.pool
            if pool == "async" and loop is not None:
                if not loop.room.enter(self._abandoned):
                    return self._put_back(chunk, execution)
                self._fetcher.share(chunk)
                loop.take(chunk, execution)
                return False
            room = tools.processes.room if pool == "process" and tools.processes else None
            if room is not None and not room.enter(self._abandoned):
                return self._put_back(chunk, execution)
            try:
                settlement = tools.runner.perform(execution, self)
            except Shutdown:
                self.processed += 1
                self.failed += 1
                raise
            finally:
                if room is not None:
                    room.leave()
        if settlement is None:
            self.processed += 1
        else:
            if settlement.counted:
                self.processed += 1
                self.failed += 1
            if chunk.size > 1 and self._tools.settler.may_wait(chunk, settlement):
                chunk.unsettled.append((text, settlement))
                return False  # settling acknowledges it
            self._settle(chunk, text, settlement)
            return settlement.verdict is Verdict.DROP  # settling acknowledges the others
        return True

    def _put_back(self, chunk: Chunk, execution: Execution) -> bool:
        """There is no room for a job: it goes back with all that waits behind it; False, as `_perform`.

        Raises:
            Shutdown: this thread is to end; it has been given back already.
        """
        if self._abandoned.is_set():
            raise Shutdown
        self._give_back(chunk)
        self._fetcher.was_put_back(chunk, execution.class_name, self._abandoned)
        return False

    def _settle(self, chunk: Chunk, text: bytes, settlement: Settlement) -> None:
        if not self._insist(
            lambda: self._tools.settler.write(self._fetcher.connection, chunk, text, settlement)
        ):
            logger.warning("a failed job was not ours any more; whoever has it decides about it")
        elif settlement.then is not None:
            settlement.then()

    def settle_failed(self, chunk: Chunk, connection: RedisConnection) -> list[Tell]:
        """Write what failed here, from another thread; see `Settler.write_failed`."""
        return self._tools.settler.write_failed(connection, chunk)

    def _settle_failed(self, chunk: Chunk) -> None:
        with chunk.lock:
            told = self._write_failed(chunk)
        for tell in told:
            tell()

    def _write_failed(self, chunk: Chunk) -> list[Tell]:
        """Under the chunk's lock: what the caller then calls, after it has left the lock."""
        told: list[Tell] = []

        def write() -> None:
            told.extend(self._tools.settler.write_failed(self._fetcher.connection, chunk))

        if chunk.unsettled:
            self._insist(write)
        return told

    def _give_back(self, chunk: Chunk) -> None:
        with chunk.lock:
            chunk.leaving += self.unfinished()
            self._insist(lambda: give_back(self._fetcher.connection, self._tools.keys, chunk, ()))

    def _insist(self, write: Callable[[], object]) -> object:
        """Repeat a write until Redis has taken it: before that nothing may be acknowledged."""
        while True:
            try:
                return write()
            except RedisUnavailable as error:
                self._tools.outage.report(error)
            except KiqbridgeError:
                logger.exception("Redis refuses to take a job; trying again, it stays in-flight")
            threads.beat()
            if self._abandoned.wait(RETRY_S):
                raise Shutdown
