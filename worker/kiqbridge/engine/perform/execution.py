"""Performing one job: the same steps on a thread, on an event loop and in a child process (protocol §7).

1. `read`: parse, ask the gate (gate.py), look up the class. `b'{"class":"Mail","args":[7],"jid":"b4a5…"}'`
   becomes an `Execution` with its payload and the declared class `Mail`.
2. Context and log level of the job; the line `start`.
3. Invoke: middleware around `perform(7)` (invocation.py).
4. The line `done` or `fail` with the seconds that it took; the metrics.
5. What it asks for: nothing when it succeeded, unless a state machine waits for it, it is under flow control
   or belongs to a schedule, else what `Decides` answers. For a worker that is a `Settlement` (engine/perform/failure.py), for a child process a message to its worker
   (job_child.py).

Nothing here touches Redis: who fetched the job writes what it asks for.
"""

import contextvars
import logging
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kiqbridge.client import rails
from kiqbridge.client.current import CONTEXT, Runtime
from kiqbridge.client.registry import JobDefinition, Registry
from kiqbridge.engine.perform.ended import LastEnded
from kiqbridge.engine.perform.job_logger import JobLines
from kiqbridge.engine.settle.ending import Refusal
from kiqbridge.engine.settle.metrics import Metrics, measured_name
from kiqbridge.engine.settle.output import NOT_PERFORMED
from kiqbridge.engine.settle.retry import PutOff, put_off_after
from kiqbridge.errors import JobInterrupted, PayloadError, Shutdown
from kiqbridge.runtime import frames, job_forks
from kiqbridge.runtime.logs import log_level
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire import json_text
from kiqbridge.wire.active_job import WRAPPERS
from kiqbridge.wire.job_record import is_watched
from kiqbridge.wire.raw_job import max_kept_bytes, too_long_to_keep

if TYPE_CHECKING:
    from collections import deque
    from concurrent.futures import Executor

logger = logging.getLogger(__name__)

O_co = TypeVar("O_co", covariant=True)


class NotBegun(Exception):  # noqa: N818 - says what happened; the thread that has the job gives it back
    """A job cannot be run here now, for a reason of the worker's own: it goes back, and nothing is charged to it."""


def note_not_begun(runtime: Runtime | None, error: NotBegun) -> None:
    """A job goes back because of this: log it once; the process is not ready for a while."""
    if runtime is not None and runtime.troubles is not None:
        text = f"jobs cannot begin here, and go back to their queues: {error}"
        runtime.troubles.hindered(
            "beginning jobs", f"{text}; look at the limits of processes and memory"
        )


class Run(Protocol):
    """A run that others of its schedule see."""

    def end(self, *, is_over: bool, connection: RedisConnection | None = None) -> None:
        """Note that the run has ended; `is_over`: the job does not go on later. Without a connection a thread aside writes it."""


@dataclass(slots=True)
class Execution:
    """A job that is about to run: its text as fetched, and what is known of it.

    Attributes:
        definition: None when the class is not declared, or when its instance could not be made.
        is_watched: somebody watches for its end: the ledger of a schedule, a lock, a batch, a chain, a state machine.
        started: on `time.monotonic`; 0 = not yet.
        line: what `JobLines` wants back at the end.
        is_interrupted: it was given back, and its task on the event loop has been cancelled because of
            that; else a CancelledError is of the job's own making.
        result: what the job returned, once it has been called; in a worker also what its child process
            has made of that.
        run: to be ended with the run, if others of its schedule are to know of it (run_marks.py).
    """

    text: bytes
    queue: str
    payload: dict[str, Any]
    definition: JobDefinition | None
    is_watched: bool = False
    started: float = 0.0
    line: str | None = None
    is_interrupted: bool = False
    result: Any = NOT_PERFORMED
    run: "Run | None" = None

    @property
    def class_name(self) -> str:
        """The class that is performed; of a Rails job the one inside its wrapper."""
        definition = self.definition
        return definition.name if definition is not None else str(self.payload.get("class"))

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.started


class Performing(Protocol):
    """The thread that runs the job; it notes when user code begins and ends, so that it can be interrupted.

    Attributes:
        interrupted: its job was given back, and is to end with `Shutdown`.
    """

    tid: str
    performing: bool

    @property
    def interrupted(self) -> bool: ...  # noqa: D102 - see above


class Invokes(Protocol):
    """Calls a job within its middleware; see `Invoker`."""

    def invoke(self, definition: JobDefinition, execution: Execution, thread: Performing) -> None:
        """Call it on this thread, and wait for its end."""

    def invoke_async(
        self, definition: JobDefinition, execution: Execution, executor: "Executor"
    ) -> Awaitable[Any]:
        """Call it on this thread's event loop; `executor` lends threads to plain middleware."""


class Gates(Protocol):
    """What may keep a job from running; see `Gate`."""

    def check(self, payload: Mapping[str, Any]) -> Refusal | None:
        """Look at a payload."""

    def begin(
        self, connection: RedisConnection, execution: Execution, owner: str
    ) -> Refusal | None:
        """Ask Redis."""


class Decides(Protocol[O_co]):
    """Decides what a job asks for that did not simply succeed."""

    def malformed(self, text: bytes, queue: str, error: Exception) -> O_co:
        """The text cannot be a job."""

    def refused(self, refusal: Refusal, payload: dict[str, Any], text: bytes, queue: str) -> O_co:
        """Decide about a job that must not run here, or not now."""

    def interrupted(self, execution: Execution) -> O_co:
        """An iterable job makes room. What this raises is the job's error."""

    def failed(self, execution: Execution, error: BaseException) -> O_co:
        """The job, or its middleware, raised this."""

    def put_off(self, execution: Execution, error: BaseException, later: PutOff) -> O_co:
        """The error is no failure: the job comes back later."""

    def succeeded(self, execution: Execution) -> O_co | None:
        """Decide about a job that has succeeded, and whose end somebody watches for."""


@dataclass(eq=False, repr=False, kw_only=True)
class JobRunner(Generic[O_co]):
    """Performs jobs; one for all threads of a capsule.

    Args:
        registry: the declared jobs.
        invoker: calls a job within its middleware.
        outcomes: decides what a job asks for that did not simply succeed.
        gate: asked about each payload before its class is looked up; in a child process there is none.
        lines: logs `start`, `done` and `fail`.
        metrics: measures each execution, if given.
        ended: notes those that succeed, if they are measured.
        max_payload_bytes: a longer text is not parsed; 0 = no limit.
    """

    registry: Registry
    invoker: Invokes
    outcomes: Decides[O_co]
    gate: Gates | None = None
    lines: JobLines | None = None
    metrics: Metrics | None = None
    ended: LastEnded | None = None
    max_payload_bytes: int = 0

    def __post_init__(self) -> None:
        self._lines = self.lines or JobLines()
        self._max_bytes = max_kept_bytes(self.max_payload_bytes)

    def run(self, text: bytes, queue: str, thread: Performing) -> O_co | None:
        """Read one job and perform it on this thread; raises and returns as `perform`."""
        read = self.read(text, queue)
        return self.perform(read, thread) if isinstance(read, Execution) else read

    def read(self, text: bytes, queue: str) -> Execution | O_co:
        """Parse a job and look up its class; what it asks for instead when it must not run here."""
        if len(text) > self._max_bytes:
            error = too_long_to_keep(text, self._max_bytes)
            return self.outcomes.malformed(text, queue, error)
        try:
            payload = json_text.loads(text)
        except json_text.MalformedJSON as error:
            return self.outcomes.malformed(text, queue, error)
        if type(payload) is not dict:
            shown = shorten(text[:100].decode(errors="replace"))
            return self.outcomes.malformed(text, queue, PayloadError(f"{shown} is no object"))
        if self.gate is not None and (refusal := self.gate.check(payload)) is not None:
            return self.outcomes.refused(refusal, payload, text, queue)
        # As `rails.find`, without its call: nearly every job is found by its own name.
        name = str(payload.get("class"))
        definition = self.registry.find(name)
        if definition is None and name in WRAPPERS:
            definition = rails.of(payload, self.registry)
        return Execution(text, queue, payload, definition, is_watched(payload))

    def begin(self, execution: Execution, connection: RedisConnection, owner: str) -> O_co | None:
        """What becomes of a job that Redis does not let begin now; None: it begins.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        if self.gate is None:
            return None
        refusal = self.gate.begin(connection, execution, owner)
        if refusal is None:
            return None
        return self.outcomes.refused(refusal, execution.payload, execution.text, execution.queue)

    def perform(self, execution: Execution, thread: Performing) -> O_co | None:
        """Perform a job on this thread.

        Returns:
            What it asks for; None when it succeeded.

        Raises:
            Shutdown: it was interrupted; it has been given back already.
            NotBegun: the worker cannot run it now; it is to be given back.
        """
        payload = execution.payload
        token = CONTEXT.set((payload, execution.queue))
        level = log_level.begin_job(payload) if log_level.OPTION in payload else None
        try:
            definition = execution.definition
            execution.started = time.monotonic()
            execution.line = self._lines.start(payload, execution.queue, definition)
            try:
                if definition is None:
                    definition = rails.require(payload, self.registry)
                self.invoker.invoke(definition, execution, thread)
            except BaseException as error:
                if isinstance(error, JobInterrupted) and error.is_saved:
                    return self._interrupted(execution)
                if isinstance(error, NotBegun):
                    self._lines.end(execution.line, "given back", execution.elapsed_s)
                    raise
                # A job may raise Shutdown itself: then it has failed, and was not given back.
                if thread.interrupted and _caused_by_shutdown(error):
                    self._given_back(execution)
                    if isinstance(error, Shutdown):
                        raise
                    raise Shutdown from error
                return self._failed(execution, error)
            if job_forks.in_child:  # middleware forked
                job_forks.end()
            self._end(execution, "done", False)
            if execution.is_watched:
                return self.outcomes.succeeded(execution)
            return None
        finally:
            if level is not None:
                log_level.end_job(level)
            CONTEXT.reset(token)

    @frames.may_take_long
    async def perform_async(self, execution: Execution, executor: "Executor") -> O_co | None:
        """Perform a job on this thread's event loop, in a task of its own.

        Returns:
            What it asks for; None when it succeeded.

        Raises:
            CancelledError: it was interrupted; it has been given back already.
            NotBegun: as `perform`.
        """
        payload = execution.payload
        CONTEXT.set((payload, execution.queue))  # the task's own context, which ends with it
        level = log_level.begin_job(payload) if log_level.OPTION in payload else None
        try:
            definition = execution.definition
            execution.started = time.monotonic()
            execution.line = self._lines.start(payload, execution.queue, definition)
            try:
                if definition is None:
                    definition = rails.require(payload, self.registry)
                await self.invoker.invoke_async(definition, execution, executor)
                if job_forks.in_child:
                    job_forks.end()
            except BaseException as error:  # noqa: BLE001 - a job's error is never ours
                if not (isinstance(error, JobInterrupted) and error.is_saved):
                    return self._failed_async(execution, error)
            else:
                self._end(execution, "done", False)
                if execution.is_watched:
                    return self.outcomes.succeeded(execution)
                return None
            try:
                import asyncio  # noqa: PLC0415 - loaded already: this runs in an event loop

                # Elsewhere, since client middleware may ask Redis, or be `async def` and need this loop.
                return await asyncio.get_running_loop().run_in_executor(
                    executor, contextvars.copy_context().run, self._interrupted, execution
                )
            except BaseException as error:  # noqa: BLE001 - such as a cancellation that was still pending
                return self._failed_async(execution, error)
        finally:
            if level is not None:
                log_level.end_job(level)

    def _failed_async(self, execution: Execution, error: BaseException) -> O_co:
        if execution.is_interrupted:
            from asyncio import CancelledError  # noqa: PLC0415 - as above

            if isinstance(error, CancelledError):
                self._given_back(execution)
                raise error
        if isinstance(error, NotBegun):
            self._lines.end(execution.line, "given back", execution.elapsed_s)
            raise error
        return self._failed(execution, error)

    def _failed(self, execution: Execution, error: BaseException) -> O_co:
        if job_forks.in_child:
            job_forks.end(error)
        later = put_off_after(execution.text, error, execution.definition)
        if later is not None:  # it did not fail, and what it has done so far is no measure
            outcome = self.outcomes.put_off(execution, error, later)
            self._lines.end(execution.line, later.line, execution.elapsed_s)
            return outcome
        self._end(execution, "fail", True)
        return self.outcomes.failed(execution, error)

    def _interrupted(self, execution: Execution) -> O_co:
        try:
            outcome = self.outcomes.interrupted(execution)
        except BaseException as error:  # noqa: BLE001 - client middleware's error is the job's, as in Ruby
            return self._failed(execution, error)
        # For the statistics it failed, for the metrics it did not (§12.1).
        self._measure(execution, execution.elapsed_s, False)
        return outcome

    def _given_back(self, execution: Execution) -> None:
        elapsed_s = execution.elapsed_s
        self._measure(execution, elapsed_s, True)
        logger.info("interrupted: given back", extra={"elapsed": round(elapsed_s, 3)})

    def _end(self, execution: Execution, message: str, failed: bool) -> None:  # noqa: FBT001 - called for each job
        elapsed_s = time.monotonic() - execution.started
        room = self._measure(execution, elapsed_s, failed)
        ended = self.ended
        if ended is not None and room is not None and len(room) < ended.most and not failed:
            name, payload = execution.class_name, execution.payload
            room.append(ended.success(payload, name, execution.queue, elapsed_s, execution.result))
            ended.wake()
        self._lines.end(execution.line, message, elapsed_s)

    def _measure(self, execution: Execution, elapsed_s: float, failed: bool) -> "deque[Any] | None":  # noqa: FBT001 - called for each job
        """Unless its class is unknown, or could not be made: no middleware saw it (§12.1)."""
        definition = execution.definition
        if self.metrics is not None and definition is not None:
            name = measured_name(execution.payload, definition.name)
            return self.metrics.record(name, elapsed_s * 1000, failed)
        return None


def _caused_by_shutdown(error: BaseException | None) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Shutdown):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
