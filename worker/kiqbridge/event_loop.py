"""Where `async def` jobs run: one event loop for each capsule, hundreds at once.

A processor's thread claims a chunk and leaves its `async def` jobs to the loop; it goes on with other
chunks under another claimer. Each job is acknowledged by itself (bookkeeping.py).
"""

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from kiqbridge import threads
from kiqbridge.bookkeeping import Bookkeeper
from kiqbridge.bridge import LOOP, OWNER
from kiqbridge.claims import Chunk, give_back
from kiqbridge.clock import wall_now
from kiqbridge.current import RUNTIME, Runtime
from kiqbridge.elastic_executor import ElasticExecutor
from kiqbridge.execution import Execution, JobRunner, Settlement
from kiqbridge.job_logger import TID
from kiqbridge.keys import Keys
from kiqbridge.lease import LeaseKeeper
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.resources import LoopResources
from kiqbridge.work import UnitOfWork

logger = logging.getLogger(__name__)

LOOK_S = 0.05
"""How often a thread that waits for room looks, if less than a tenth of all places is free."""

START_S = 30.0
"""How long asynchronous resources may take to open."""


class EventLoop:
    """A thread with an event loop, and the jobs on it.

    Attributes:
        limit: how many jobs run at once.
        processed, failed: how many so far; only ever counted up, and only by this thread.
    """

    def __init__(
        self,
        *,
        name: str,
        limit: int,
        runner: JobRunner,
        keeper: LeaseKeeper,
        bookkeeper: Bookkeeper,
        runtime: Runtime,
        resources: LoopResources,
    ) -> None:
        self.name = name
        self.limit = limit
        self.processed = 0
        self.failed = 0
        self._runner = runner
        self._keeper = keeper
        self._bookkeeper = bookkeeper
        self._runtime = runtime
        self._resources = resources
        self._room = threading.Condition()
        self._taken = 0
        self._waiting = False
        self._low = limit - max(limit // 10, 1)
        self._inbox: deque[tuple[str, Chunk, Execution]] = deque()
        self._woken = False
        self._numbers = 0
        self._running: dict[str, tuple[Chunk, UnitOfWork]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._executor = ElasticExecutor(f"kiqbridge-{name}-bridge")
        self._context = contextvars.Context()
        self._thread = threading.Thread(
            target=self._run, name=f"kiqbridge-loop-{name}", daemon=True
        )

    def __repr__(self) -> str:
        return f"<EventLoop {self.name}, {self._taken} of {self.limit} running>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself, once started."""
        if self._loop is None:
            raise RuntimeError("the event loop has not been started")
        return self._loop

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this is the loop that runs here now."""
        return loop is self._loop and self.alive and not loop.is_closed()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the loop and open the asynchronous resources on it.

        Raises:
            Exception: whatever a resource raised while it was opened.
        """
        self._thread.start()
        if not self._opened.wait(START_S):
            raise TimeoutError(
                f"the asynchronous resources of capsule {self.name} did not open within {START_S:.0f} s"
            )
        if self._failure is not None:
            raise self._failure

    def take(self, chunk: Chunk, execution: Execution, give_up: threading.Event) -> bool:
        """Run a job that a thread has claimed; waits while the loop is full. False: given up."""
        with self._room:
            while self._taken >= self.limit:
                self._waiting = True
                self._room.wait(LOOK_S)
                if give_up.is_set():
                    return False
            self._taken += 1
            self._numbers += 1
            tid = f"loop-{self._numbers:x}"
        if chunk.elsewhere is not None:
            chunk.elsewhere.hold()
        unit = UnitOfWork(chunk.queue, execution.text, wall_now())
        self._running[tid] = (chunk, unit)
        self._inbox.append((tid, chunk, execution))
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._begin)
        return True

    def running(self) -> Mapping[str, UnitOfWork]:
        """The jobs that run here, by an id of their own."""
        return {tid: unit for tid, (_, unit) in list(self._running.items())}

    def ping(self) -> None:
        """Have the loop note that it gets on."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(threads.beat)

    def wait(self, deadline: float) -> bool:
        """Wait until nothing runs, or the deadline on `time.monotonic` is over; whether nothing runs."""
        with self._room:
            while self._taken and (left := deadline - time.monotonic()) > 0:
                self._waiting = True
                self._room.wait(left)
            return not self._taken

    def give_back(self, connection: RedisConnection, keys: Keys) -> int:
        """Give all running jobs back to their queues; they are cancelled next. Returns how many.

        Raises:
            KiqbridgeError: Redis did not take them; a reaper gives them back.
        """
        by_chunk: dict[int, tuple[Chunk, list[bytes]]] = {}
        for chunk, unit in reversed(list(self._running.values())):
            by_chunk.setdefault(id(chunk), (chunk, []))[1].append(unit.text)
        moved = 0
        for chunk, texts in by_chunk.values():
            with chunk.lock:
                moved += max(give_back(connection, keys, chunk, texts), 0)
        return moved

    def cancel(self) -> None:
        """Interrupt what runs: `CancelledError` at its next await."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._cancel_all)

    def stop(self, timeout_s: float) -> None:
        """Close the resources and end the thread."""
        end = self._end
        if end is not None and self.alive:
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(end.set)
            self._thread.join(timeout_s)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        try:
            with (
                threads.watched(f"loop {self.name}", performs_jobs=True),
                asyncio.Runner(loop_factory=_loop_factory()) as runner,
            ):
                self._loop = runner.get_loop()
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            if self._opened.is_set():
                logger.exception("the event loop of capsule %s ended", self.name)
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        async with self._resources:
            self._context.run(RUNTIME.set, self._runtime)
            self._context.run(LOOP.set, None)
            self._context.run(OWNER.set, self)
            self._opened.set()
            await self._end.wait()

    def _begin(self) -> None:
        self._woken = False  # before looking: what comes now wakes again
        loop = self.loop
        while self._inbox:
            tid, chunk, execution = self._inbox.popleft()
            self._tasks[tid] = loop.create_task(
                self._perform(tid, chunk, execution), context=self._context.copy()
            )

    async def _perform(self, tid: str, chunk: Chunk, execution: Execution) -> None:
        TID.set(tid)
        try:
            if chunk.lease.in_doubt() and not await self._confirmed(chunk):
                return
            settlement = await self._runner.perform_on_loop(execution, self._executor)
        except asyncio.CancelledError:
            self.processed += 1
            self.failed += 1
            return  # it has been given back
        except Exception as error:
            # Ours, not the job's. It stays in-flight; nothing of it may be acknowledged.
            logger.exception("internal error; the job is given back when this process ends")
            self._runner.report(error, {"context": "internal error", "jobstr": execution.text})
            return
        finally:
            del self._running[tid], self._tasks[tid]
            with self._room:
                self._taken -= 1
                # Not for each: telling costs more than the rest of this.
                if self._waiting and self._taken <= self._low:
                    self._waiting = False
                    self._room.notify_all()
        self._count(settlement)
        self._bookkeeper.ended(chunk, execution.text, settlement)

    async def _confirmed(self, chunk: Chunk) -> bool:
        # Not the loop's default executor: a job may have replaced it, or filled it.
        held = await self.loop.run_in_executor(self._executor, self._keeper.confirm, chunk.lease)
        if not held and chunk.lease.lost and chunk.elsewhere is not None:
            chunk.elsewhere.release()  # somebody else has the job
        return held

    def _count(self, settlement: Settlement | None) -> None:
        if settlement is None:
            self.processed += 1
        elif settlement.counted:
            self.processed += 1
            self.failed += 1

    def _cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's where it is installed: it runs about twice as many jobs."""
    try:
        import uvloop  # noqa: PLC0415 - an extra that not everybody installs
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
