"""Where `async def` jobs run: one event loop for each capsule, hundreds at once.

A processor's thread claims a chunk and leaves its `async def` jobs to the loop; it goes on with other
chunks under another claimer.

1. `take`: a job that was read and has taken a slot is put into the loop's inbox.
2. `_begin`, on the loop: a task of its own for each, in a copy of one context.
3. `_perform`: the same steps as on a thread (`JobRunner.perform_async` in execution.py).
4. Its end goes to the bookkeeper, which writes what it asks for and acknowledges it by itself.

Nothing that a job does ends the loop for the others (kept_loop.py).
"""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Iterator, Mapping

from kiqbridge.client.current import Runtime
from kiqbridge.client.server import LoopResources
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.inflight.lease import LeaseKeeper
from kiqbridge.engine.inflight.outage import RETRY_S
from kiqbridge.engine.perform.execution import Execution, JobRunner, NotBegun, note_not_begun
from kiqbridge.engine.perform.job_logger import TID
from kiqbridge.engine.perform.kept_loop import KeptLoop
from kiqbridge.engine.perform.loop_watch import LoopWatch
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.runtime import frames, threads, user_code
from kiqbridge.runtime.clock import wall_now
from kiqbridge.runtime.elastic_executor import ElasticExecutor
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

SWEEP_S = 1.0
"""How often to look for tasks that never begin: others have cancelled them, or an error has ended the loop just there."""


@dataclass(slots=True, eq=False)
class _Held:
    """A job that is here, from `take` until it is released.

    Attributes:
        has_begun: the first line of its task has run.
        was_due: it had a task at the last sweep: since then the loop has run the first line of each.
        is_taken: it was taken away.
    """

    tid: str
    chunk: Chunk
    job: RunningJob
    execution: Execution
    task: asyncio.Task[None] | None = None
    has_begun: bool = False
    was_due: bool = False
    is_taken: bool = False


class EventLoop(KeptLoop):
    """A thread with an event loop, and the jobs on it.

    Attributes:
        limit: how many jobs run at once.
        processed, failed: how many so far; only ever counted up, and only by this thread.
        blocked_s: seconds after which a job that blocks the loop is logged, 0 = never; to be set before `start`.
    """

    def __init__(
        self,
        *,
        name: str,
        limit: int,
        runner: JobRunner[Settlement],
        keeper: LeaseKeeper,
        bookkeeper: Bookkeeper,
        handlers: Handlers,
        runtime: Runtime,
        resources: LoopResources,
    ) -> None:
        super().__init__(name, limit=limit, runtime=runtime, resources=resources)
        self.limit = limit
        self.processed = 0
        self.failed = 0
        self.blocked_s = 0.0
        self._watch = LoopWatch(self)
        self._runner = runner
        self._keeper = keeper
        self._bookkeeper = bookkeeper
        self._handlers = handlers
        self._inbox: deque[_Held] = deque()
        self._woken = False
        self._numbers = itertools.count(1)
        self._running: dict[str, _Held] = {}
        self._is_cancelled = False
        self._is_sweeping = False
        self._executor = ElasticExecutor(f"kiqbridge-{name}-bridge")

    def __repr__(self) -> str:
        return f"<EventLoop {self.name}, {self.slots.taken} of {self.limit} running>"

    def start(self) -> None:
        """Start the loop, and the watch over what blocks it; as `KeptLoop.start`."""
        super().start()
        if self.blocked_s:
            self._watch.start()

    def stop(self, timeout_s: float) -> None:
        """Close the resources and end the thread."""
        self._watch.stop()
        super().stop(timeout_s)
        self._executor.shutdown(wait=False, cancel_futures=True)

    @property
    def count(self) -> int:
        """How many jobs are here."""
        return len(self._running)

    def current(self) -> Execution | None:
        """The job whose own task the loop is in now, for any thread; None: it is in none."""
        task = asyncio.current_task(self._loop)
        found = (held for held in list(self._running.values()) if held.task is task)
        held = next(found, None) if task is not None else None
        return None if held is None else held.execution

    def take(self, chunk: Chunk, execution: Execution) -> None:
        """Run a job that a thread has claimed, and for which it has taken a slot."""
        chunk.hold()
        job = RunningJob(chunk.queue, execution.text, wall_now())
        held = _Held(f"loop-{next(self._numbers):x}", chunk, job, execution)
        self._running[held.tid] = held
        self._watch.wake()
        self._inbox.append(held)
        if not self._woken:
            self._woken = True
            with contextlib.suppress(
                RuntimeError
            ):  # it has ended: the one after it looks here first
                self.loop.call_soon_threadsafe(self._begin)

    def running(self) -> Mapping[str, RunningJob]:
        """The jobs that run here, by an id of their own."""
        return {tid: held.job for tid, held in list(self._running.items())}

    def stacks(self) -> Mapping[str, str]:
        """Where they await, by the same ids."""
        held = [(each.tid, each.task) for each in list(self._running.values())]
        return {tid: frames.task_stack(task) for tid, task in held if task is not None}

    def holding(self) -> Iterator[tuple[str, Chunk, RunningJob]]:
        """The running jobs as (id, chunk, job)."""
        for held in list(self._running.values()):
            yield held.tid, held.chunk, held.job

    def end_one(self, tid: str, job: RunningJob) -> None:
        """Cancel a job that was taken away."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._cancel_one, tid, job)

    def _cancel_one(self, tid: str, job: RunningJob) -> None:
        held = self._running.get(tid)
        if held is not None and held.job is job:
            held.is_taken = held.execution.is_interrupted = True
            if held.task is not None:
                held.task.cancel()

    def ping(self) -> None:
        """Have the loop note that it gets on, and begin what waits, should an error have cut `take` short."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(threads.beat)
                if self._inbox:
                    loop.call_soon_threadsafe(self._begin)

    def wait(self, deadline: float) -> bool:
        """Wait until nothing runs, or the deadline on `time.monotonic` is over; whether nothing runs."""
        # Once the thread has ended, nothing that it held comes to an end.
        return self.slots.wait_empty(deadline if self.alive else 0.0)

    def give_back(self, connection: RedisConnection, keys: Keys) -> int:
        """Give all running jobs back to their queues; they are cancelled next. Returns how many.

        Raises:
            KiqbridgeError: Redis did not take them; a reaper gives them back.
        """
        by_chunk: dict[int, tuple[Chunk, list[bytes]]] = {}
        for held in reversed(list(self._running.values())):
            by_chunk.setdefault(id(held.chunk), (held.chunk, []))[1].append(held.job.text)
        moved = 0
        for chunk, texts in by_chunk.values():
            with chunk.writing:
                chunk.put_back(texts)
                moved += max(give_back(connection, keys, chunk), 0)
        return moved

    def cancel(self) -> None:
        """Interrupt what runs: `CancelledError` at its next await. Nothing begins here any more."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._cancel_all)

    def give_up(self) -> None:
        """Give back the jobs that the lost loop held."""
        for each in list(self._running.values()):
            if self._release(each):
                if each.task is not None:
                    self.processed += 1
                    self.failed += 1
                self._bookkeeper.give_back(each.chunk, each.job.text)

    def go_on(self) -> None:
        """Begin the jobs that wait; an error in one of our callbacks may have kept it from its work."""
        self._woken = self._is_sweeping = False
        self._begin()

    def _begin(self) -> None:
        self._woken = False  # before looking: what comes now wakes again
        loop = self.loop
        while self._inbox:
            held = self._inbox[
                0
            ]  # taken out last: an error raised in this thread may come in between
            if held.task is None and held.tid in self._running and not self._is_cancelled:
                held.task = loop.create_task(self._perform(held), context=self._context.copy())
            self._inbox.popleft()
        if not self._is_sweeping:
            self._is_sweeping = True
            loop.call_later(SWEEP_S, self._sweep)

    async def _perform(self, held: _Held) -> None:
        if held.has_begun or held.tid not in self._running:
            return  # it has another task, or was given back
        held.has_begun = True
        TID.set(held.tid)
        chunk, execution = held.chunk, held.execution
        try:
            if chunk.lease.in_doubt() and not await self._confirmed(chunk):
                self._release(held)
                return
            settlement = await self._runner.perform_async(execution, self._executor)
        except NotBegun as error:
            note_not_begun(self._runtime, error)
            await self._put_back(held)
            return
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job must not stay here
            self._failed(held, error)
            return
        is_over = settlement is None or not settlement.goes_on
        if self._release(held, is_over=is_over):
            self._count(settlement)
            self._bookkeeper.ended(chunk, execution.text, settlement)

    async def _put_back(self, held: _Held) -> None:
        """Give back a job that could not begin, a moment later: it may be the next one to be claimed here."""
        try:
            await asyncio.sleep(RETRY_S)
        except BaseException as error:  # noqa: BLE001 - as in `_perform`
            self._failed(held, error)
            return
        if self._release(held):
            self._bookkeeper.give_back(held.chunk, held.job.text)

    def _release(self, held: _Held, *, is_over: bool = False) -> bool:
        """Hold a job no longer; `is_over`: it does not go on. False: it has been released before."""
        if self._running.pop(held.tid, None) is None:
            return False
        self.slots.leave()
        if held.execution.run is not None:
            held.execution.run.end(is_over=is_over)
        return True

    def _failed(self, held: _Held, error: BaseException) -> None:
        """What was raised is not the job's: it was interrupted by us, or something here went wrong."""
        if not self._release(held):
            return
        if held.execution.is_interrupted:  # it has been given back
            self.processed += 1
            self.failed += 1
            if held.is_taken:
                held.chunk.gone(held.job.text)
            return
        user_code.log_error(logger, error, "internal error; the job is given back")
        context = {"context": "internal error", "jobstr": held.execution.text}
        self._bookkeeper.give_back(
            held.chunk, held.execution.text, lambda: self._handlers.report(error, context)
        )

    async def _confirmed(self, chunk: Chunk) -> bool:
        # Not the loop's default executor: a job may have replaced it, or filled it.
        held = await self.loop.run_in_executor(self._executor, self._keeper.confirm, chunk.lease)
        if not held and chunk.lease.lost:
            chunk.release()  # somebody else has the job
        return held

    def _count(self, settlement: Settlement | None) -> None:
        if settlement is None:
            self.processed += 1
        elif settlement.counted:
            self.processed += 1
            self.failed += settlement.failed

    def _cancel_all(self) -> None:
        self._is_cancelled = True
        for held in list(self._running.values()):
            held.execution.is_interrupted = True
            if held.task is not None:
                held.task.cancel()
        self.loop.call_soon(self._sweep)  # after those that are cancelled before they began

    def _sweep(self) -> None:
        """Release jobs of whose task no line is ever run.

        It was cancelled before, or what the loop was about to do was lost when an error ended it.
        """
        self._is_sweeping = False
        for held in list(self._running.values()):
            if held.task is None:
                continue
            if held.task.done():
                self._failed(
                    held, asyncio.CancelledError("cancelled by other code before it began")
                )
            elif held.was_due and not held.has_begun:
                self._failed(held, RuntimeError("lost when an error ended the event loop"))
            held.was_due = True
        if self._running and not self._is_cancelled:
            self._is_sweeping = True
            self.loop.call_later(SWEEP_S, self._sweep)
