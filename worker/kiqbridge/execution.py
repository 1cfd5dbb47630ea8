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
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from kiqbridge import json_text
from kiqbridge.current import CONTEXT
from kiqbridge.errors import JobInterrupted, JobTimeout, PayloadError, Shutdown
from kiqbridge.limits import Timekeeper
from kiqbridge.middleware import Chain, ServerMiddleware
from kiqbridge.payload import shorten
from kiqbridge.registry import Handling, JobDefinition, Registry
from kiqbridge.retry import DEFAULT_HANDLING, RetryPolicy, Verdict, decide, error_message
from kiqbridge.server import Server

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
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool
    then: Callable[[], None] | None = None


@dataclass(slots=True)
class Execution:
    """A job that is about to run: its text as fetched, and what is known of it.

    Attributes:
        definition: None when the class is not declared.
        started: on `time.monotonic`; 0 = not yet.
    """

    text: bytes
    queue: str
    payload: dict[str, Any]
    definition: JobDefinition | None
    started: float = 0.0


class Performing(Protocol):
    """Who runs the job: told when user code begins and ends, so that it can be interrupted."""

    performing: bool


class JobRunner:
    """Runs jobs; one for all threads of a capsule.

    `policy` is asked at each failure: the wire profile may follow the fleet.
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
    ) -> None:
        self._registry = registry
        self._middleware = middleware
        self._policy = policy
        self._rng = rng
        self._wall_now = wall_now
        self._server = server or Server()
        self._timekeeper = timekeeper or Timekeeper()
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
        try:
            payload = json_text.loads(text)
        except json_text.MalformedJSON as error:
            return self._malformed(text, queue, error)
        if type(payload) is not dict:
            return self._malformed(text, queue, PayloadError(f"{shorten(payload)} is no object"))
        definition = self._registry.find(str(payload.get("class")))
        return Execution(text, queue, payload, definition)

    def perform(self, execution: Execution, thread: Performing) -> Settlement | None:
        """Perform on this thread what has begun; as `run`."""
        token = CONTEXT.set((execution.payload, execution.queue))
        try:
            speaks = self._start(execution)
            try:
                definition, instance = self._instance_of(execution)
                self._call(definition, instance, execution, thread)
            except JobInterrupted:
                return self._interrupted(execution)
            except Shutdown:
                logger.info("interrupted: given back", extra=_elapsed(execution))
                raise
            except BaseException as error:
                if _caused_by_shutdown(error):
                    raise Shutdown from error
                return self._failed(execution, error)
            if speaks:
                logger.info("done", extra=_elapsed(execution))
            return None
        finally:
            CONTEXT.reset(token)

    async def perform_on_loop(self, execution: Execution, executor: Executor) -> Settlement | None:
        """Perform on this thread's event loop what has begun; None when it succeeded.

        Raises:
            CancelledError: it was interrupted from outside.
        """
        CONTEXT.set((execution.payload, execution.queue))
        speaks = self._start(execution)
        try:
            definition, instance = self._instance_of(execution)
            await self._call_on_loop(definition, instance, execution, executor)
        except JobInterrupted:
            return self._interrupted(execution)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                logger.info("interrupted: given back", extra=_elapsed(execution))
                raise
            return self._failed(execution, error)  # of the job's own making
        except BaseException as error:  # noqa: BLE001 - a job's error is never ours
            return self._failed(execution, error)
        if speaks:
            logger.info("done", extra=_elapsed(execution))
        return None

    def report(self, error: BaseException, context: Mapping[str, Any]) -> None:
        """Tell the error handlers; their own errors are logged."""
        for handler in self._server.error_handlers:
            _tell(handler, error, context)

    def _start(self, execution: Execution) -> bool:
        execution.started = time.monotonic()
        speaks = logger.isEnabledFor(logging.INFO)
        if speaks:
            logger.info("start")
        return speaks

    def _instance_of(self, execution: Execution) -> tuple[JobDefinition, Any]:
        definition = execution.definition
        if definition is None:
            definition = self._registry.require(str(execution.payload.get("class")))
        try:
            return definition, definition.instantiate(str(execution.payload.get("jid")))
        except BaseException:
            execution.definition = None  # as for an unknown class, its rules do not count (§7.4)
            raise

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
                        return self._finish(perform(*args))
                return self._finish(perform(*args))
            finally:
                thread.performing = False

        if len(self._middleware):
            self._middleware.invoke((instance, execution.payload, execution.queue), call)
        else:
            call()

    async def _call_on_loop(
        self, definition: JobDefinition, instance: Any, execution: Execution, executor: Executor
    ) -> None:
        perform = definition.perform_of(instance)
        timeout_s = definition.handling.timeout_s

        async def call() -> Any:
            args = _arguments(execution.payload)
            if timeout_s is None:
                return await perform(*args)
            limit = asyncio.timeout(timeout_s)
            try:
                async with limit:
                    return await perform(*args)
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

    def _finish(self, result: Any) -> Any:
        """Wait for a plain function's coroutine; `async def` jobs run on the capsule's loop."""
        if not inspect.iscoroutine(result):
            return result
        loop = getattr(self._loops, "runner", None)
        if loop is None:
            loop = self._loops.runner = asyncio.Runner()
        # The loop would run everything in the context of its first job, and log it under that jid.
        return loop.run(result, context=contextvars.copy_context())

    def _failed(self, execution: Execution, error: BaseException) -> Settlement:
        if logger.isEnabledFor(logging.INFO):
            logger.info("fail", extra=_elapsed(execution))
        now = self._wall_now()
        definition, text = execution.definition, execution.text
        # Parsed again: what middleware or the job did to the payload must not reach the retry.
        payload = json_text.loads(text)
        decision = decide(
            payload,
            error,
            queue=execution.queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=self._policy(),
            now=now,
            rng=self._rng,
            handling=self._handling_of(payload, definition),
        )
        kept = {
            Verdict.RETRY: f"is tried again in {decision.at - now:.0f} s",
            Verdict.DEAD: "is dead, no tries are left",
        }.get(decision.verdict, "is dropped")
        logger.warning(
            "%s: %s; it %s",
            type(error).__name__,
            shorten(error_message(error)),
            kept,
            exc_info=error,
        )

        def tell() -> None:
            if decision.verdict is not Verdict.RETRY:
                for handler in self._server.death_handlers:
                    _tell(handler, decision.payload, error)
            self.report(error, {"context": "a job raised an error", "job": payload})

        return Settlement(
            verdict=decision.verdict,
            score=decision.at if decision.verdict is Verdict.RETRY else now,
            text=json_text.dumps_moved(decision.payload, text),
            counted=True,
            then=tell,
        )

    def _handling_of(
        self, payload: Mapping[str, Any], definition: JobDefinition | None
    ) -> Handling:
        """The rules that count: of a wrapped job those of the class inside (§8.3)."""
        wrapped = payload.get("wrapped")
        if wrapped:
            definition = self._registry.find(str(wrapped))
        return definition.handling if definition else DEFAULT_HANDLING

    def _interrupted(self, execution: Execution) -> Settlement:
        """An iterable job makes room: it goes to the end of its queue (§13.2)."""
        logger.info("interrupted: goes on later", extra=_elapsed(execution))
        return Settlement(
            verdict=Verdict.REPUSH, score=self._wall_now(), text=execution.text, counted=True
        )

    def _malformed(self, text: bytes, queue: str, error: Exception) -> Settlement:
        logger.error(
            "a text in queue %s cannot be a job (%s); it is kept in the dead set as it is: %s",
            queue,
            error,
            shorten(text),
        )
        context = {"context": "a job's text cannot be read", "jobstr": text}
        return Settlement(
            verdict=Verdict.DEAD,
            score=self._wall_now(),
            text=text,
            counted=False,
            then=lambda: self.report(error, context),
        )


def _tell(handler: Callable[..., object], *args: object) -> None:
    try:
        handler(*args)
    except Exception:
        logger.exception("a handler failed: %s", getattr(handler, "__qualname__", handler))


def _arguments(payload: Mapping[str, Any]) -> list[Any]:
    args = payload.get("args")
    if not isinstance(args, list):
        raise PayloadError(f"args: {shorten(args)} is not a list")
    return args


def _elapsed(execution: Execution) -> dict[str, float]:
    return {"elapsed": round(time.monotonic() - execution.started, 3)}


def _caused_by_shutdown(error: BaseException | None) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Shutdown):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
