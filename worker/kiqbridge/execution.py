"""Running one job: parse, look up, middleware, perform; and what its failure asks for (§7).

Nothing here touches Redis: what is to be written is answered as a `Settlement`, and who fetched the
job writes it.
"""

import asyncio
import contextvars
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kiqbridge import frames, job_forks, json_text, log_level, rails, user_code
from kiqbridge.active_job import WRAPPERS
from kiqbridge.current import CONTEXT, RUNTIME
from kiqbridge.errors import JobInterrupted, JobTimeout, PayloadError, Shutdown
from kiqbridge.gate import Diversion
from kiqbridge.interruption import PENDING, settle
from kiqbridge.job_logger import JobLines, log_failure
from kiqbridge.limits import Timekeeper
from kiqbridge.metrics import Metrics, measured_name
from kiqbridge.middleware import Chain, ServerMiddleware
from kiqbridge.payload import new_jid, shorten
from kiqbridge.process_pool import Order, rules_after
from kiqbridge.raw_job import UNREADABLE_CLASS, most_kept_bytes, too_long_to_keep, unreadable_job
from kiqbridge.registry import Handling, JobDefinition, Registry
from kiqbridge.retry import (
    DEFAULT_HANDLING,
    RetryPolicy,
    Verdict,
    decide,
    error_class,
    error_message,
    failed_payload,
)
from kiqbridge.server import Server
from kiqbridge.showable import showable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job that did not succeed asks for.

    Attributes:
        verdict: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        then: called once it is written, and only then: tells the handlers.
        queue: where a job goes that is routed or pushed again.
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool
    then: Callable[[], None] | None = None
    queue: str = ""


@dataclass(slots=True)
class Execution:
    """A job that is about to run: its text as fetched, and what is known of it.

    Attributes:
        definition: None when the class is not declared.
        started: on `time.monotonic`; 0 = not yet.
        line: what `JobLines` wants back at the end.
        is_interrupted: it was given back, and its task on the event loop has been cancelled because of
            that; else a CancelledError is of the job's own making.
    """

    text: bytes
    queue: str
    payload: dict[str, Any]
    definition: JobDefinition | None
    started: float = 0.0
    line: str | None = None
    is_interrupted: bool = False

    @property
    def class_name(self) -> str:
        """The class that is performed; of a Rails job the one inside its wrapper."""
        definition = self.definition
        return definition.name if definition is not None else str(self.payload.get("class"))


class Performing(Protocol):
    """Who runs the job: told when user code begins and ends, so that it can be interrupted.

    Attributes:
        interrupted: its job was given back, and is to end with `Shutdown`.
    """

    tid: str
    performing: bool

    @property
    def interrupted(self) -> bool: ...  # noqa: D102 - see above


class Processes(Protocol):
    """Who runs jobs outside this process: the process pool, or the isolation of a suspect.

    Attributes:
        takes_all: not only those declared with `pool="process"`.
    """

    takes_all: bool

    def perform(self, order: Order, owner: object) -> None:
        """Run one; see `ProcessPool.perform`."""


class JobRunner:
    """Runs jobs; one for all threads of a capsule.

    `policy` is asked at each failure: the wire profile may follow the fleet. `gate` is asked about each
    payload before its class is looked up. `capsule` is the name of theirs, whose middleware goes around
    a job in one of the `processes` too. `metrics` measures each execution, if given. A text that is longer
    than `max_payload_bytes` (0 = no limit) is not parsed.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        middleware: Chain[ServerMiddleware],
        policy: Callable[[], RetryPolicy],
        rng: random.Random,
        wall_now: Callable[[], float] = time.time,
        server: Server | None = None,
        timekeeper: Timekeeper | None = None,
        gate: Callable[[Mapping[str, Any]], Diversion | None] = lambda _payload: None,
        lines: JobLines | None = None,
        processes: Processes | None = None,
        capsule: str = "default",
        metrics: Metrics | None = None,
        max_payload_bytes: int = 0,
    ) -> None:
        self._registry = registry
        self._middleware = middleware
        self._policy = policy
        self._rng = rng
        self._wall_now = wall_now
        self._server = server or Server()
        self._timekeeper = timekeeper or Timekeeper()
        self._gate = gate
        self._lines = lines or JobLines()
        self._metrics = metrics
        self._processes = processes
        self._capsule = capsule
        self._most_bytes = most_kept_bytes(max_payload_bytes)
        self._loops = threading.local()

    def run(self, text: bytes, queue: str, thread: Performing) -> Settlement | None:
        """Run one job on this thread; None when it succeeded.

        Raises:
            Shutdown: it was interrupted; it has been given back already.
        """
        begun = self.begin(text, queue)
        return begun if isinstance(begun, Settlement) else self.perform(begun, thread)

    def begin(self, text: bytes, queue: str) -> Execution | Settlement:
        """Read a job; a settlement when it must not run here."""
        if len(text) > self._most_bytes:
            return self._malformed(text, queue, too_long_to_keep(text, self._most_bytes))
        try:
            payload = json_text.loads(text)
        except json_text.MalformedJSON as error:
            return self._malformed(text, queue, error)
        if type(payload) is not dict:
            shown = shorten(text[:100].decode(errors="replace"))
            return self._malformed(text, queue, PayloadError(f"{shown} is no object"))
        diversion = self._gate(payload)
        if diversion is not None:
            return self._diverted(diversion, payload, text, queue)
        name = str(payload.get("class"))
        definition = self._registry.find(name)
        if definition is None and name in WRAPPERS:
            definition = rails.of(payload, self._registry)
        return Execution(text, queue, payload, definition)

    def perform(self, execution: Execution, thread: Performing) -> Settlement | None:
        """Perform on this thread what has begun; as `run`."""
        token = CONTEXT.set((execution.payload, execution.queue))
        try:
            if log_level.OPTION in execution.payload:
                with log_level.of_job(execution.payload):
                    return self._perform(execution, thread)
            return self._perform(execution, thread)
        finally:
            CONTEXT.reset(token)

    def _perform(self, execution: Execution, thread: Performing) -> Settlement | None:
        self._start(execution)
        try:
            processes, definition = self._processes, execution.definition
            if (
                processes is not None
                and definition is not None
                and (processes.takes_all or definition.handling.pool == "process")
            ):
                processes.perform(self._order(execution, definition, thread), thread)
            else:
                definition, instance = self._instance_of(execution)
                self._call(definition, instance, execution, thread)
        except BaseException as error:
            if isinstance(error, JobInterrupted) and error.is_saved:
                return self._interrupted(execution)
            # A job may raise Shutdown itself: then it has failed, and nobody has given it back.
            if thread.interrupted and _caused_by_shutdown(error):
                self._measure(execution, _elapsed_s(execution), failed=True)
                logger.info("interrupted: given back", extra=_elapsed(execution))
                if isinstance(error, Shutdown):
                    raise
                raise Shutdown from error
            return self._failed(execution, error)
        if job_forks.in_child:  # middleware forked
            job_forks.end()
        self._end(execution, "done")
        return None

    def perform_on_loop(
        self, execution: Execution, executor: Executor
    ) -> Coroutine[Any, Any, Settlement | None]:
        """Perform on this thread's event loop, in this task's context, what has begun.

        Await it at once; None when the job succeeded. It raises CancelledError when it was interrupted
        from outside.
        """
        # No coroutine itself: each level is passed through again whenever a job goes on.
        CONTEXT.set((execution.payload, execution.queue))
        if log_level.OPTION in execution.payload:
            return self._perform_at_level(execution, executor)
        return self._perform_on_loop(execution, executor)

    async def _perform_at_level(
        self, execution: Execution, executor: Executor
    ) -> Settlement | None:
        with log_level.of_job(execution.payload):
            return await self._perform_on_loop(execution, executor)

    async def _perform_on_loop(self, execution: Execution, executor: Executor) -> Settlement | None:
        self._start(execution)
        try:
            definition, instance = self._instance_of(execution)
            await self._call_on_loop(definition, instance, execution, executor)
            if job_forks.in_child:
                job_forks.end()
        except BaseException as error:  # noqa: BLE001 - a job's error is never ours
            if not (isinstance(error, JobInterrupted) and error.is_saved):
                return self._failed_on_loop(execution, error)
        else:
            self._end(execution, "done")
            return None
        try:
            # Elsewhere, since client middleware may ask Redis, or be `async def` and need this loop.
            return await asyncio.get_running_loop().run_in_executor(
                executor, contextvars.copy_context().run, self._interrupted, execution
            )
        except BaseException as error:  # noqa: BLE001 - such as a cancellation that was still pending
            return self._failed_on_loop(execution, error)

    def _failed_on_loop(self, execution: Execution, error: BaseException) -> Settlement:
        """What an error asks for.

        Raises:
            CancelledError: that error itself, when the job was interrupted from outside.
        """
        if execution.is_interrupted and isinstance(error, asyncio.CancelledError):
            self._measure(execution, _elapsed_s(execution), failed=True)
            logger.info("interrupted: given back", extra=_elapsed(execution))
            raise error
        return self._failed(execution, error)

    def interrupt(
        self, ident: int, thread: Performing, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Raise `Shutdown` in the job that runs on a thread, as soon as that is safe, while wanted."""
        self._timekeeper.interrupt(ident, Shutdown, lambda: thread.performing and is_wanted())

    def report(self, error: BaseException, context: Mapping[str, Any]) -> None:
        """Tell the error handlers; their own errors are logged."""
        for handler in self._server.error_handlers:
            _tell(handler, error, context)

    def _start(self, execution: Execution) -> None:
        execution.started = time.monotonic()
        execution.line = self._lines.start(execution.payload, execution.queue, execution.definition)

    def _end(self, execution: Execution, message: str, failed: bool = False) -> None:  # noqa: FBT001, FBT002 - called for each job
        elapsed_s = time.monotonic() - execution.started
        self._measure(execution, elapsed_s, failed)
        self._lines.end(execution.line, message, elapsed_s)

    def _measure(self, execution: Execution, elapsed_s: float, failed: bool) -> None:  # noqa: FBT001 - called for each job
        """Unless its class is unknown, or could not be made: no middleware saw it (§12.1)."""
        definition = execution.definition
        if self._metrics is not None and definition is not None:
            name = measured_name(execution.payload, definition.name)
            self._metrics.record(name, elapsed_s * 1000, failed)

    def _instance_of(self, execution: Execution) -> tuple[JobDefinition, Any]:
        definition = execution.definition
        if definition is None:
            definition = rails.require(execution.payload, self._registry)
        try:
            return definition, definition.instantiate(str(execution.payload.get("jid")))
        except BaseException:
            execution.definition = None  # as for an unknown class, its rules do not count (§7.4)
            raise

    @frames.may_take_long
    def _call(
        self, definition: JobDefinition, instance: Any, execution: Execution, thread: Performing
    ) -> None:
        perform = definition.perform_of(instance)
        timeout_s = definition.handling.timeout_s

        def call() -> Any:
            args = _arguments(execution.payload)
            thread.performing = True
            try:
                if timeout_s is not None:
                    with self._timekeeper.limit(timeout_s):
                        result = self._finish(perform(*args))
                else:
                    result = perform(*args)
                    # Nearly all give nothing back, and each call here is made for each job.
                    if result is not None:
                        result = self._finish(result)
            except BaseException as error:
                if job_forks.in_child:
                    job_forks.end(error)
                raise
            finally:
                thread.performing = False
                if PENDING:
                    settle()
            if job_forks.in_child:  # before middleware, which belongs to the parent's job
                job_forks.end()
            return result

        if len(self._middleware):
            self._middleware.invoke((instance, execution.payload, execution.queue), call)
        else:
            call()

    def _order(self, execution: Execution, definition: JobDefinition, thread: Performing) -> Order:
        policy, timeout_s = self._policy(), definition.handling.timeout_s
        if self._processes is not None and self._processes.takes_all:
            # A suspect is in nobody's way; that it takes too long again is its failure.
            timeout_s = timeout_s or definition.handling.max_run_s
        return Order(
            text=execution.text,
            queue=execution.queue,
            tid=thread.tid,
            capsule=self._capsule,
            max_retries=policy.max_retries,
            profile=policy.profile,
            timeout_s=timeout_s,
        )

    @frames.may_take_long
    async def _call_on_loop(
        self, definition: JobDefinition, instance: Any, execution: Execution, executor: Executor
    ) -> None:
        perform = definition.perform_of(instance)
        timeout_s = definition.handling.timeout_s
        if timeout_s is None and not len(self._middleware):
            await perform(*_arguments(execution.payload))
            return

        async def call() -> Any:
            args = _arguments(execution.payload)
            if timeout_s is None:
                return await _ending_forks(perform(*args))
            limit = asyncio.timeout(timeout_s)
            try:
                async with limit:
                    return await _ending_forks(perform(*args))
            except TimeoutError as error:
                if limit.expired():
                    raise JobTimeout(
                        f"took longer than its timeout_s of {timeout_s:g} s"
                    ) from error
                raise

        if len(self._middleware):
            await self._middleware.invoke_async(
                (instance, execution.payload, execution.queue), call, executor
            )
        else:
            await call()

    @frames.may_take_long
    def _finish(self, result: Any) -> Any:
        """Wait for a plain function's coroutine; `async def` jobs run on the capsule's loop."""
        if not inspect.iscoroutine(result):
            return result
        loop = getattr(self._loops, "runner", None)
        if loop is None:
            loop = self._loops.runner = asyncio.Runner()
        try:
            # The loop would run everything in the context of its first job, and log it under that jid.
            return loop.run(result, context=contextvars.copy_context())
        except (JobTimeout, Shutdown):
            # It may have left the loop from outside; its tasks must not go on with the next job's.
            self._loops.runner = None
            loop.close()
            raise

    def _failed(self, execution: Execution, error: BaseException) -> Settlement:
        if job_forks.in_child:
            job_forks.end(error)
        self._end(execution, "fail", failed=True)
        definition, policy = execution.definition, self._policy()
        try:
            return self._settlement_of(execution, error, policy, has_rules=True)
        except BaseException as second:  # noqa: BLE001 - a rule may do anything to what it is given
            name = definition.name if definition else "?"
            user_code.log_error(
                logger,
                second,
                "the rules of class %s failed: it is treated as if it had none",
                name,
            )
        policy = replace(policy, backtrace_cleaner=None)
        return self._settlement_of(execution, error, policy, has_rules=False)

    def _settlement_of(
        self, execution: Execution, error: BaseException, policy: RetryPolicy, *, has_rules: bool
    ) -> Settlement:
        now = self._wall_now()
        definition, text = execution.definition, execution.text
        # Parsed again: what middleware or the job did to the payload must not reach the retry.
        payload = _with_jid(json_text.loads(text))
        rules = self._handling_of(payload, definition) if has_rules else DEFAULT_HANDLING
        decision = decide(
            payload,
            error,
            queue=execution.queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=policy,
            now=now,
            rng=self._rng,
            handling=rules_after(error, rules),
        )
        kept_text = json_text.dumps_moved(decision.payload, text)
        if job_forks.in_child:  # a rule of the class forked
            job_forks.end()
        kept = {
            Verdict.RETRY: f"is tried again in {decision.at - now:.0f} s",
            Verdict.DEAD: "is dead, no tries are left",
        }.get(decision.verdict, "is dropped")
        log_failure(error, kept, payload, definition)

        # The error holds on to all frames that it went through. Kept for nobody until it is written, those
        # of many jobs made the garbage collector take half of a failing worker's time.
        listens = self._server.error_handlers or (
            decision.verdict is not Verdict.RETRY and self._server.death_handlers
        )

        def tell() -> None:
            if decision.verdict is not Verdict.RETRY:
                for handler in self._server.death_handlers:
                    _tell(handler, decision.payload, error)
            self.report(error, {"context": "a job raised an error", "job": payload})

        return Settlement(
            verdict=decision.verdict,
            score=decision.at if decision.verdict is Verdict.RETRY else now,
            text=kept_text,
            counted=True,
            then=tell if listens else None,
        )

    def _handling_of(
        self, payload: Mapping[str, Any], definition: JobDefinition | None
    ) -> Handling:
        """The rules that count: of a wrapped job those of the class inside (§8.3)."""
        ruling = rails.rules_of(payload, definition, self._registry)
        return ruling.handling if ruling else DEFAULT_HANDLING

    def _interrupted(self, execution: Execution) -> Settlement:
        """An iterable job makes room: it is pushed again, to the end of its queue (§13.2)."""
        runtime = RUNTIME.get()
        if runtime is None:
            return self._failed(execution, RuntimeError("interrupted, but by no worker"))
        now = self._wall_now()
        payload: dict[str, Any] = json_text.loads(execution.text)
        payload.setdefault("queue", execution.queue)
        try:
            pushed = runtime.client.prepare_moved(payload, now, execution.text)
        except BaseException as error:  # noqa: BLE001 - client middleware's error is the job's, as in Ruby
            return self._failed(execution, error)
        # For the statistics it failed, for the metrics it did not (§12.1).
        self._measure(execution, _elapsed_s(execution), failed=False)
        if pushed is None:
            logger.warning("interrupted, and client middleware stopped its push: it is dropped")
            return Settlement(verdict=Verdict.DROP, score=now, text=execution.text, counted=True)
        logger.info("interrupted: goes on later", extra=_elapsed(execution))
        queue, text = pushed
        return Settlement(verdict=Verdict.REPUSH, score=now, text=text, counted=True, queue=queue)

    def _diverted(
        self, diversion: Diversion, payload: dict[str, Any], text: bytes, queue: str
    ) -> Settlement:
        """It does not run here: neither a success nor a failure, unless it is refused for good."""
        if diversion.queue is not None:
            return Settlement(
                verdict=Verdict.ROUTE, score=0, text=text, counted=False, queue=diversion.queue
            )
        error = diversion.error
        if error is None:
            kept = showable(_with_jid(payload))
            if kept is not payload:
                text = json_text.dumps_moved(kept, text)
            return Settlement(
                verdict=Verdict.SCHEDULE, score=diversion.at or 0, text=text, counted=False
            )
        now = self._wall_now()
        payload = _with_jid(payload)
        failed = failed_payload(payload, error, queue=queue, policy=self._policy(), now=now)

        def tell() -> None:
            for handler in self._server.death_handlers:
                _tell(handler, failed, error)
            self.report(error, {"context": "a job was refused", "job": payload})

        return Settlement(
            verdict=Verdict.DEAD,
            score=now,
            text=json_text.dumps_moved(failed, text),
            counted=True,
            then=tell,
        )

    def _malformed(self, text: bytes, queue: str, error: Exception) -> Settlement:
        logger.error(
            "a text in queue %s cannot be a job (%s); it is kept in the dead set, as the argument of a job "
            "of class %s: %s",
            queue,
            error,
            UNREADABLE_CLASS,
            shorten(text),
        )
        context = {"context": "a job's text cannot be read", "jobstr": text}
        now = self._wall_now()
        return Settlement(
            verdict=Verdict.DEAD,
            score=now,
            text=unreadable_job(
                text,
                error_class=error_class(error),
                error_message=error_message(error),
                queue=queue,
                now=now,
                profile=self._policy().profile,
            ),
            counted=False,
            then=lambda: self.report(error, context),
        )


def _tell(handler: Callable[..., object], *args: object) -> None:
    user_code.call(handler, *args, log=logger, failed="a handler failed")


async def _ending_forks(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await a job; a child that it forks ends here, before middleware goes on."""
    try:
        result = await coroutine
    except BaseException as error:
        if job_forks.in_child:
            job_forks.end(error)
        raise
    if job_forks.in_child:
        job_forks.end()
    return result


def _with_jid(payload: dict[str, Any]) -> dict[str, Any]:
    """A job without an id gets one: in a sorted set it would be the same as its twins."""
    return payload if payload.get("jid") not in (None, "") else {**payload, "jid": new_jid()}


def _arguments(payload: Mapping[str, Any]) -> list[Any]:
    args = payload.get("args")
    if not isinstance(args, list):
        raise PayloadError(
            f"args: {shorten(args)} is not a list; whoever pushes this job must write its arguments as one"
        )
    return args


def _elapsed(execution: Execution) -> dict[str, float]:
    return {"elapsed": round(_elapsed_s(execution), 3)}


def _elapsed_s(execution: Execution) -> float:
    return time.monotonic() - execution.started


def _caused_by_shutdown(error: BaseException | None) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Shutdown):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
