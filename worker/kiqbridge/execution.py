"""Running one job: parse, look up, middleware, perform; and what its failure asks for (§7).

Nothing here touches Redis: a failure is answered with a `Settlement` that the processor writes.
"""

import asyncio
import contextvars
import inspect
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kiqbridge import json_text
from kiqbridge.current import CONTEXT
from kiqbridge.errors import PayloadError, Shutdown
from kiqbridge.middleware import Chain, ServerMiddleware
from kiqbridge.payload import shorten
from kiqbridge.registry import JobDefinition, Registry
from kiqbridge.retry import RetryPolicy, Verdict, decide, error_message

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job that did not succeed asks for.

    Attributes:
        verdict: retry, dead or drop.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool


class Performing(Protocol):
    """Who runs the job: told when user code begins and ends, so that it can be interrupted."""

    performing: bool


class JobRunner:
    """Runs jobs on the calling thread; one for all threads of a process.

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
    ) -> None:
        self._registry = registry
        self._middleware = middleware
        self._policy = policy
        self._rng = rng
        self._wall_now = wall_now
        self._loops = threading.local()

    def run(self, text: bytes, queue: str, thread: Performing) -> Settlement | None:
        """Run one job; None when it succeeded.

        Raises:
            Shutdown: it was interrupted; it has been given back already.
        """
        try:
            payload = json_text.loads(text)
        except json_text.MalformedJSON as error:
            return self._malformed(text, queue, str(error))
        if type(payload) is not dict:
            return self._malformed(text, queue, f"{shorten(payload)} is no object")
        token = CONTEXT.set((payload, queue))
        try:
            return self._run_logged(payload, text, queue, thread)
        finally:
            CONTEXT.reset(token)

    def _run_logged(
        self, payload: dict[str, Any], text: bytes, queue: str, thread: Performing
    ) -> Settlement | None:
        speaks = logger.isEnabledFor(logging.INFO)
        started = time.monotonic()
        if speaks:
            logger.info("start")
        definition: JobDefinition | None = None
        try:
            found = self._registry.require(str(payload.get("class")))
            instance = found.instantiate(str(payload.get("jid")))
            definition = found
            self._perform(definition, instance, payload, queue, thread)
        except Shutdown:
            logger.info("interrupted: given back", extra=_elapsed(started))
            raise
        except BaseException as error:
            if _caused_by_shutdown(error):
                raise Shutdown from error
            if speaks:
                logger.info("fail", extra=_elapsed(started))
            return self._failed(text, queue, error, definition)
        if speaks:
            logger.info("done", extra=_elapsed(started))
        return None

    def _perform(
        self,
        definition: JobDefinition,
        instance: Any,
        payload: dict[str, Any],
        queue: str,
        thread: Performing,
    ) -> None:
        perform = definition.perform_of(instance)

        def call() -> Any:
            args = payload.get("args")
            if not isinstance(args, list):
                raise PayloadError(f"args: {shorten(args)} is not a list")
            thread.performing = True
            try:
                result = perform(*args)
                return self._wait_for(result) if inspect.iscoroutine(result) else result
            finally:
                thread.performing = False

        if len(self._middleware):
            self._middleware.invoke((instance, payload, queue), call)
        else:
            call()

    def _wait_for(self, coroutine: Any) -> Any:
        loop = getattr(self._loops, "runner", None)
        if loop is None:
            loop = self._loops.runner = asyncio.Runner()
        # The loop would run everything in the context of its first job, and log it under that jid.
        return loop.run(coroutine, context=contextvars.copy_context())

    def _failed(
        self,
        text: bytes,
        queue: str,
        error: BaseException,
        definition: JobDefinition | None,
    ) -> Settlement:
        now = self._wall_now()
        # Parsed again: what middleware or the job did to the payload must not reach the retry.
        decision = decide(
            json_text.loads(text),
            error,
            queue=queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=self._policy(),
            now=now,
            rng=self._rng,
        )
        kept = {
            Verdict.RETRY: f"is tried again in {decision.at - now:.0f} s",
            Verdict.DEAD: "is dead, no tries are left",
            Verdict.DROP: "is dropped, it wants no retry",
        }[decision.verdict]
        logger.warning(
            "%s: %s; it %s",
            type(error).__name__,
            shorten(error_message(error)),
            kept,
            exc_info=error,
        )
        return Settlement(
            verdict=decision.verdict,
            score=decision.at if decision.verdict is Verdict.RETRY else now,
            text=json_text.dumps_moved(decision.payload, text),
            counted=True,
        )

    def _malformed(self, text: bytes, queue: str, reason: str) -> Settlement:
        logger.error(
            "a text in queue %s cannot be a job (%s); it is kept in the dead set as it is: %s",
            queue,
            reason,
            shorten(text),
        )
        return Settlement(verdict=Verdict.DEAD, score=self._wall_now(), text=text, counted=False)


def _elapsed(started: float) -> dict[str, float]:
    return {"elapsed": round(time.monotonic() - started, 3)}


def _caused_by_shutdown(error: BaseException | None) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Shutdown):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
