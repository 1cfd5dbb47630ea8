"""One thread that performs jobs: fetch a chunk, run it job by job, settle what failed.

1. `_perform_until_quiet`: fetch a chunk (fetch.py); each claim acknowledges the chunk before.
2. `_perform_jobs`: take the oldest job, `b'{"class":"Mail","args":[7],"jid":"b4a5…","retry":true}'`, while the lease
   is certain; it is `current` from then on, as the Busy page shows it.
3. `_perform_job`: read it (execution.py). An `async def` job is handed over to the event loop; one of the process
   pool takes a slot first; all others are performed here.
4. It succeeded: it is acknowledged with its chunk. Else it asks for a `Settlement` (engine/perform/failure.py), which is
   written at once or, if it is a retry, with others of its chunk (settling.py); then the handlers are called.
5. The chunk is left when nothing of it waits, fails or goes back any more, and Redis has confirmed that.

The promise is kept in three lines: a claim acknowledges only the chunk before it; `_perform_jobs` begins
nothing under a lease in doubt; and what a chunk still holds when the thread leaves it is given back.
"""

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.lease import LeaseKeeper
from kiqbridge.engine.inflight.outage import RETRY_S, Outage
from kiqbridge.engine.perform.execution import Execution, JobRunner, NotBegun, note_not_begun
from kiqbridge.engine.perform.fetch import Fetches, next_size
from kiqbridge.engine.perform.job_logger import TID
from kiqbridge.engine.perform.look_ahead import PrefetchRevoker
from kiqbridge.engine.perform.run_lock import FROM_JOBS, RUN_LOCK
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.perform.slots import JobPool, Slots
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.notifications import Handlers, Notification
from kiqbridge.engine.settle.settling import ChunkWriter, Settler
from kiqbridge.errors import Shutdown
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.clock import lease_now, wall_now
from kiqbridge.runtime.interruption import Timekeeper
from kiqbridge.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from kiqbridge.engine.perform.event_loop import EventLoop

logger = logging.getLogger(__name__)


class ProcessorContext(NamedTuple):
    """What all processors of a capsule share."""

    keeper: LeaseKeeper
    runner: JobRunner[Settlement]
    timekeeper: Timekeeper
    handlers: Handlers
    revoker: PrefetchRevoker
    outage: Outage
    settler: Settler
    bookkeeper: Bookkeeper
    runtime: Runtime
    look_ahead: int
    note_taken: Callable[[Chunk], object]
    loop: "EventLoop | None" = None
    pools: Mapping[str, JobPool] = MappingProxyType({})


class Processor:
    """A processor thread.

    Attributes:
        fetcher: where it gets its jobs from.
        chunk: the jobs of the last claim, until nothing of them is left to do here.
        current: the running job.
        processed, failed: how many so far; only ever counted up, and only by this thread.
        performing: user code is running now.
    """

    def __init__(self, tid: str, fetcher: Fetches, context: ProcessorContext) -> None:
        self.tid = tid
        self.current: RunningJob | None = None
        self.chunk: Chunk | None = None
        self.began_at = 0.0
        self.processed = 0
        self.failed = 0
        self.performing = False
        self.fetcher = fetcher
        self._context = context
        self._abandoned = threading.Event()
        self._writes = ChunkWriter(
            context.settler, fetcher.connection, context.outage, self._abandoned.wait
        )
        self._slots = {kind: pool.slots for kind, pool in context.pools.items()}
        if context.loop is not None:
            self._slots["async"] = context.loop.slots
        self._size = 1
        self._quiet = False
        self._taken: RunningJob | None = None
        self._thread = threading.Thread(target=self._run, name=f"kiqbridge-{tid}", daemon=True)

    def __repr__(self) -> str:
        state = "busy" if self.current else "idle"
        return f"<Processor {self.tid} {state}, {self.processed} processed, {self.failed} failed>"

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    @property
    def interrupted(self) -> bool:
        """Whether the running job was given back, or taken away, and is to end because of it."""
        taken = self._taken
        return self._abandoned.is_set() or (taken is not None and taken is self.current)

    def start(self) -> None:
        """Begin to fetch."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end; not if it never began."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def quiet(self) -> None:
        """Begin no further job; the running one may finish. The idle gate is opened by the manager."""
        self._quiet = True

    def interrupt(self) -> None:
        """Raise `Shutdown` in the running job; to be called after it was given back."""
        self._abandoned.set()
        for pool in self._context.pools.values():
            pool.interrupt(self)
        if self.performing:
            self._raise_shutdown(lambda: self.performing)

    def holding(self) -> Iterator[tuple[str, Chunk, RunningJob]]:
        """The running job as (id, its chunk, the job), if there is one."""
        chunk, job = self.chunk, self.current
        if chunk is not None and job is not None and self.chunk is chunk:
            yield self.tid, chunk, job

    def end_one(self, _tid: str, job: RunningJob) -> None:
        """Interrupt this job, which was taken away; the thread goes on with others."""
        self._taken = job
        for pool in self._context.pools.values():
            pool.end_one(self)
        self._raise_shutdown(lambda: self.performing and self.current is job)

    def _raise_shutdown(self, is_wanted: Callable[[], bool]) -> None:
        """Raise `Shutdown` in this thread as soon as that is safe, while it is wanted."""
        if self._thread.ident is not None:
            self._context.timekeeper.interrupt(self._thread.ident, Shutdown, is_wanted)

    def write_ended(self, chunk: Chunk, connection: RedisConnection) -> list[Notification]:
        """Write what ended here, from whatever thread; see `Settler.write_ended`."""
        return self._context.settler.write_ended(connection, chunk)

    def acknowledge(self, chunk: Chunk, connection: RedisConnection) -> None:
        """Acknowledge what this thread has finished of its chunk, from another one, after the rest went back.

        Raises:
            RedisUnavailable: not acknowledged.
        """
        if chunk.may_be_acknowledged():
            self.fetcher.acknowledge_for(connection)
        elif chunk.is_shared:
            self._hand_over_done(chunk)

    def _run(self) -> None:
        TID.set(self.tid)
        RUNTIME.set(self._context.runtime)
        if self._context.loop is not None:
            self._context.loop.serve_thread()
        threads.keep_running(
            f"processor {self.tid}",
            self._perform_until_quiet,
            is_ending=self._abandoned.is_set,
            wait=self._abandoned.wait,
            performs_jobs=True,
        )

    def _perform_until_quiet(self) -> None:
        with contextlib.suppress(Shutdown):  # ours: those of jobs are settled
            # What an error of ours has left here, or kept from coming here: the next claim would acknowledge it.
            left, last = self.chunk, self.fetcher.last
            if left is None and last is not None and last.has_waiting:
                left = last
            if left is not None:
                self._return(left)
            while not self._quiet:
                threads.beat()
                chunk = self.fetcher.fetch(self._size, self._abandoned)
                if chunk is not None:
                    self._perform_chunk(chunk)
            self.fetcher.acknowledge(self._abandoned)

    def _perform_chunk(self, chunk: Chunk) -> None:
        began, self.began_at = lease_now(), math.inf  # no job of it runs yet
        self._context.note_taken(chunk)
        self.chunk, running = chunk, None
        try:
            if chunk.size >= FROM_JOBS:
                running = RUN_LOCK.take(self, chunk.queue)
            self._perform_jobs(chunk, began)
        except Shutdown:
            # The chunk may hold jobs still, which the next claim under its claimer, by whatever thread,
            # would acknowledge.
            self.current = None
            self.chunk = None
            raise
        except BaseException as error:  # noqa: BLE001 - no error may cost the jobs that wait here
            # Ours, not the job's: jobs' errors are settled. Nothing here may be acknowledged.
            user_code.log_error(
                logger, error, "internal error; the jobs of this thread are given back"
            )
            current = self.current
            self._context.handlers.report(
                error, {"context": "internal error", "jobstr": current.text if current else b""}
            )
            self._abandoned.wait(RETRY_S)
            self._return(chunk)
        else:
            self._leave(chunk)
        finally:
            if running is not None:
                running.release()

    def _return(self, chunk: Chunk) -> None:
        """Give back what an error of ours has left in a chunk, the running job included."""
        self._writes.give_back(chunk)
        self._writes.write_ended(chunk)
        self._leave(chunk)

    def _leave(self, chunk: Chunk) -> None:
        self.current = None
        if chunk.is_shared:
            self._hand_over_done(chunk)
            self.fetcher.leave(chunk)
        self.chunk = None  # last: after an error up to here the chunk is left once more

    def _hand_over_done(self, chunk: Chunk) -> None:
        """Have what was done here in a shared chunk acknowledged by itself."""
        bookkeeper = self._context.bookkeeper
        chunk.hand_over_done(lambda text: bookkeeper.ended(chunk, text, None))

    def _perform_jobs(self, chunk: Chunk, first: float) -> None:  # noqa: C901 - each further call is made for each job
        """Run the jobs of a chunk one by one, until none waits and Redis has all that is to be written of them.

        Raises:
            Shutdown: this thread is to end; what was revoked by then has been given back, all else stays in
                flight.
        """
        lease, take, finish, context = chunk.lease, chunk.take, chunk.finish, self._context
        if chunk.size > 1:
            context.revoker.watch()
        longest = 0.0
        now = self.began_at = lease_now()
        while True:
            if self._quiet:
                self._writes.give_back(chunk)
            if (lease.lost or now > lease.valid_until) and not self._may_begin(chunk):
                chunk.drop()
                self._writes.write_ended(chunk)  # those that were given to others stay theirs
                return
            text = take()
            if text is None:
                self._writes.write_rest(chunk)
                if chunk.may_be_left():
                    break
                now = lease_now()  # that took its time, and what was revoked waits again
                continue
            self.began_at = now
            self.current = RunningJob(chunk.queue, text, wall_now())
            try:
                if self._perform_job(chunk, text):
                    finish()
            except Shutdown:
                if self._abandoned.is_set():
                    raise
                # This job alone was interrupted. If it was not taken away before, it goes back now.
                chunk.put_back_running()
            self.current = None
            began, now = now, lease_now()
            if now - began > longest:  # noqa: PLR1730 - `max` takes as long as taking a job
                longest = now - began
        self._size = next_size(
            self._size,
            chunk_s=now - first,
            longest_s=longest,
            full=chunk.size == self._size,
            limit=context.look_ahead,
        )

    def _may_begin(self, chunk: Chunk) -> bool:
        """Whether a job may begin under a lease in doubt; False: somebody else has the jobs.

        Raises:
            Shutdown: the process ends while Redis is away. What waits here is still ours, and an
                acknowledgement that reaches Redis after all would lose it.
        """
        while not chunk.has_waiting:
            self._writes.write_rest(chunk)
            if chunk.may_be_left():
                return True  # nothing is returning, so no job can come to wait again
        if self._context.keeper.confirm(chunk.lease):
            return True
        if not chunk.lease.lost:
            raise Shutdown
        return False

    def _perform_job(self, chunk: Chunk, text: bytes) -> bool:  # noqa: C901, PLR0911 - one act, written in one piece
        """Perform a job here or in its pool, or hand it over to the event loop.

        Returns whether the job waits for nothing but the acknowledgement of its chunk.

        Raises:
            Shutdown: the job was interrupted, or this thread is to end.
        """
        context = self._context
        execution = context.runner.read(text, chunk.queue)
        if isinstance(execution, Settlement):
            return self._settle_job(chunk, text, execution)
        definition = execution.definition
        pool = "thread" if definition is None else definition.handling.pool
        loop = context.loop if pool == "async" else None
        slots = self._slots.get(pool)
        if slots is not None and not slots.enter(self._abandoned):
            self._put_back(chunk, execution)
            return False
        settlement = self._begin_run(chunk, execution, slots) if execution.is_watched else None
        if settlement is not None:
            return self._settle_job(chunk, text, settlement)
        if loop is not None:
            self.fetcher.share(chunk)
            loop.take(chunk, execution)
            chunk.hand_over()
            return False
        is_over = False
        try:
            settlement = context.runner.perform(execution, self)
            is_over = settlement is None or not settlement.goes_on
        except NotBegun as error:
            self._put_back(chunk, execution)
            # It may be the next one that this thread claims; jobs of the pool are not claimed for a while.
            if slots is None:
                note_not_begun(context.runtime, error)
                self._abandoned.wait(RETRY_S)
            return False
        except Shutdown:
            self.processed += 1
            self.failed += 1
            raise
        finally:
            if slots is not None:
                slots.leave()
            if execution.run is not None:
                execution.run.end(is_over=is_over, connection=self.fetcher.connection)
        if settlement is None:
            self.processed += 1
            return True
        return self._settle_job(chunk, text, settlement)

    def _begin_run(
        self, chunk: Chunk, execution: Execution, slots: Slots | None
    ) -> Settlement | None:
        """What becomes of a job of a schedule, or of a unique one, that is not to begin now; None: it begins.

        Raises:
            Shutdown: this thread is to end, while Redis is away.
        """
        settlement, begins = None, False
        try:
            begin, owner = self._context.runner.begin, chunk.lease.incarnation
            begin_here = partial(begin, execution, self.fetcher.connection, owner)
            settlement = self._writes.until_written(begin_here)
            begins = settlement is None
        finally:
            if slots is not None and not begins:
                slots.leave()
        return settlement

    def _put_back(self, chunk: Chunk, execution: Execution) -> None:
        """There is no room for a job, or no child process: it goes back with all that waits behind it.

        Raises:
            Shutdown: this thread is to end; it has been given back already.
        """
        if self._abandoned.is_set():
            raise Shutdown
        self._writes.give_back(chunk)
        self.fetcher.was_put_back(chunk, execution.class_name, self._abandoned)

    def _settle_job(self, chunk: Chunk, text: bytes, settlement: Settlement) -> bool:
        """Count a job that did not simply succeed, and write what becomes of it; returns as `_perform_job`."""
        self.processed += settlement.counted
        self.failed += settlement.counted and settlement.failed
        return self._writes.settle(chunk, text, settlement)
