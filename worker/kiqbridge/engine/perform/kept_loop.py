"""An event loop on a thread of its own, which nothing that a job does ends for the others.

1. An error that escapes a background task, or `loop.stop()`: the same loop is entered again (threads.py).
2. A loop that cannot go on, since its selector fails: its jobs are given back, and another loop takes
   its place, with resources of its own.
3. When that happens too often, the thread ends (`on_lost`), and what it held stays in flight: the
   worker that recovers it counts it, so that the job which does this is found.
"""

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from kiqbridge.client.bridge import LOOP, OWNER
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.client.server import LoopResources
from kiqbridge.engine.perform.slots import Slots
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.threads import keep_loop_running

logger = logging.getLogger(__name__)

START_S = 30.0
"""How long asynchronous resources may take to open."""

REPORT_S = 1.0
"""Seconds between two log lines about what ended a loop that goes on."""

MOST_LOSSES = 3
WITHIN_S = 300.0
"""How many loops may be lost within how many seconds; after that no new loop is started."""

MOST_UNOPENED = 6
"""How often in a row resources may fail to open on a new loop; the pauses are 1, 2, 4 … s."""


class KeptLoop(ABC):
    """A thread with an event loop, for jobs that a subclass holds.

    Attributes:
        slots: for the jobs.
        on_lost: called with the reason when there is no loop any more and no other takes its place;
            to be set before `start`.
    """

    def __init__(
        self, name: str, *, limit: int, runtime: Runtime, resources: LoopResources
    ) -> None:
        self.name = name
        self.slots = Slots(limit)
        self.on_lost: Callable[[str], object] = self._log_end
        self._runtime = runtime
        self._resources = resources
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._stopping = threading.Event()
        self._reported_at = 0.0
        self._lost: list[asyncio.AbstractEventLoop] = []
        self._losses: deque[float] = deque(maxlen=MOST_LOSSES)
        self._unopened = 0
        self._context = contextvars.Context()
        self._thread = threading.Thread(
            target=self._run, name=f"kiqbridge-loop-{name}", daemon=True
        )

    @property
    @abstractmethod
    def count(self) -> int:
        """How many jobs are here."""

    @abstractmethod
    def go_on(self) -> None:
        """Begin what waits, on the loop: another one has come, or an error has ended this one wherever it was."""

    @abstractmethod
    def give_up(self) -> None:
        """Give back what the loop held, which is lost."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs now, once started; another one may take its place."""
        if self._loop is None:
            raise RuntimeError("the event loop has not been started")
        return self._loop

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this is the loop that runs here now."""
        return loop is self._loop and self.alive and loop not in self._lost

    def serve_thread(self) -> None:
        """Let `async def` middleware of jobs that this thread performs run on this loop."""
        LOOP.set(self)

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

    @property
    def ident(self) -> int:
        """`threading.get_ident()` of its thread."""
        return self._thread.ident or 0

    def stop(self, timeout_s: float) -> None:
        """Close the resources and end the thread."""
        self._stopping.set()
        end = self._end
        if end is not None and self.alive:
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(end.set)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        why = ""
        try:
            with threads.watched(f"loop {self.name}", performs_jobs=True):
                while why := self._serve_one():
                    if self._stopping.is_set() or self._is_beyond_repair():
                        break
                    threads.beat()
                    self.slots.shut()
                    logger.error(
                        "the event loop of capsule %s cannot continue (%s): its %d jobs are given back, and another "
                        "loop takes its place",
                        self.name,
                        why,
                        self.count,
                    )
                    self.give_up()
        except BaseException as error:  # noqa: BLE001 - the thread's last line of defence
            self._failure = error
            why = type(error).__name__
        self.slots.shut()
        is_started = self._opened.is_set()
        self._opened.set()
        if why and is_started and not self._stopping.is_set():
            user_code.call(self.on_lost, why, log=logger, failed="a listener to its end failed")

    def _is_beyond_repair(self) -> bool:
        """Whether no other loop takes the place of the one that was just lost; may wait a little."""
        if self._unopened:
            return self._unopened >= MOST_UNOPENED or self._stopping.wait(2 ** (self._unopened - 1))
        self._losses.append(time.monotonic())
        return len(self._losses) == MOST_LOSSES and self._losses[-1] - self._losses[0] < WITHIN_S

    def _serve_one(self) -> str:
        """Run one loop to its end: "" if that was ordered, or why it cannot go on.

        Raises:
            BaseException: the resources could not be opened at the start.
        """
        runner = asyncio.Runner(loop_factory=_loop_factory())
        loop = runner.get_loop()
        serving = loop.create_task(self._serve(loop))
        serving.add_done_callback(lambda _done: loop.stop())
        why = keep_loop_running(loop, is_over=serving.done, report=self._report)
        if why:
            # Never closed: its descriptors' numbers may be those of other files by now.
            self._lost.append(loop)
            return why
        error = None if serving.cancelled() else serving.exception()
        user_code.call(runner.close, log=logger, failed="closing an event loop failed")
        if error is None:
            return ""
        if not self._opened.is_set():
            raise error
        user_code.log_error(
            logger, error, "a resource of the event loop of capsule %s failed", self.name
        )
        self._unopened += 1
        return f"a resource failed with {type(error).__name__}"

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        end = asyncio.Event()
        async with self._resources:
            self._context.run(RUNTIME.set, self._runtime)
            self._context.run(LOOP.set, None)
            self._context.run(OWNER.set, self)
            self._end, self._loop, self._unopened = end, loop, 0
            self.go_on()
            self.slots.open()
            self._opened.set()
            while not (end.is_set() or self._stopping.is_set()):
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    self._report("the task that keeps the resources open was cancelled", None)

    def _log_end(self, why: str) -> None:
        logger.error(
            "the event loop of capsule %s has ended for good (%s): no more `async def` jobs begin here; restart this process",
            self.name,
            why,
        )

    def _report(self, what: str, error: BaseException | None) -> None:
        self.loop.call_soon(self.go_on)
        now = time.monotonic()
        if now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        message = "the event loop of capsule %s was ended: %s; it continues, with all its jobs"
        if error is None:
            logger.error(message, self.name, what)
        else:
            user_code.log_error(logger, error, message, self.name, what)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's where it is installed: it runs about twice as many jobs."""
    try:
        import uvloop  # noqa: PLC0415 - an extra that not everybody installs
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
