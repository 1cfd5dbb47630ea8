"""The child process that runs jobs for a worker (process_pool.py): `python -m kiqbridge.job_child`.

It loads the same code with the worker's own `-r` targets, opens the resources of `server` once, and
runs one job after the other on its main thread: looked up in its own registry, within the server's
middleware, with the context variables of a job. An error is told to the worker, which decides about
the job; only what the rules of its class say is asked here, where the real exception is.

It takes its orders from the worker alone: signals that reach the whole group are not for it, and when
the worker is gone so is the child.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import inspect
import logging
import os
import queue
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import asdict, replace
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn, cast

from kiqbridge import descriptors, ending, job_forks, json_text, log_level, rails, redaction
from kiqbridge.bridge import LOOP
from kiqbridge.child_messages import Channel, ChildSettings, Failure
from kiqbridge.client import Client
from kiqbridge.current import CONTEXT, RUNTIME, Runtime
from kiqbridge.elastic_executor import ElasticExecutor
from kiqbridge.errors import JobInterrupted, KiqbridgeError, PayloadError
from kiqbridge.job_logger import TID, configure_logging, flush_logging
from kiqbridge.loops import keep_loop_running
from kiqbridge.middleware import Chain, ServerMiddleware
from kiqbridge.payload import Profile, shorten
from kiqbridge.process_pool import Order
from kiqbridge.process_state import ProcessState
from kiqbridge.redis_connection import RedisPool
from kiqbridge.registry import Handling, JobDefinition, Registry, default_registry
from kiqbridge.require import load_all
from kiqbridge.resources import LoopResources, ProcessResources
from kiqbridge.retry import (
    DEFAULT_HANDLING,
    RetryPolicy,
    backtrace_lines,
    decide,
    error_class,
    error_message,
)
from kiqbridge.server import Server, server
from kiqbridge.signals import IGNORED
from kiqbridge.trial import Trial

logger = logging.getLogger(__name__)

END_S = 5.0
"""How long closing the resources may take once the worker has hung up."""

_TRACEBACK_LIMIT = 20_000
"""Characters of a traceback for the worker's log, its end."""

_LOOP_LOST = 70
"""Exit code of a child whose event loop cannot go on; its job fails and is tried again."""

_DESCRIPTORS_LOST = 71
"""Exit code when a job has closed the socket to the worker."""

_PR_SET_PDEATHSIG = 1
_FOR_THE_WORKER = ("TERM", "INT", "TSTP", "TTIN", *IGNORED)


def main(argv: list[str]) -> int:
    """Run jobs until the worker hangs up.

    Args:
        argv: the number of the socket's file descriptor, and the worker's process id.
    """
    handle, worker = int(argv[0]), int(argv[1])
    _tie_to(worker)
    faulthandler.enable()  # what dies by a signal says where
    os.set_inheritable(handle, False)
    job_forks.install()
    descriptors.watch(_end_without_socket)
    channel = Channel(socket.socket(fileno=handle))
    received = channel.receive()
    if received is None:
        return 0
    settings = ChildSettings.from_message(received[0]["settings"])
    child = JobChild(channel, settings)
    try:
        redaction.configure(settings.redact)
        configure_logging(
            settings.log_level, settings.log_format, attributes=settings.logged_job_attributes
        )
        load_all(settings.require)
        child.open()
    except Exception as error:
        logger.exception("a child process for jobs cannot start")
        channel.send({"failed": f"{type(error).__name__}: {error_message(error)}"})
        return 1
    channel.send({"ready": os.getpid()})
    child.serve()
    return 0


class JobChild:
    """What runs in a child, made from the worker's settings."""

    def __init__(
        self,
        channel: Channel,
        settings: ChildSettings,
        *,
        declared: Server = server,
        registry: Registry = default_registry,
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._server = declared
        self._registry = registry
        self._resources = ProcessResources(declared.resources)
        self._loop: _Loop | None = None
        self._orders: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._is_busy = False
        self._is_alone = False

    def open(self) -> None:
        """Open the resources, and make the worker's client the one of this process.

        Raises:
            Exception: whatever a resource raised.
        """
        settings = self._settings
        pool = RedisPool(settings.redis_url)
        client = Client(
            namespace=settings.namespace,
            profile=settings.profile,
            pool=pool,
            max_payload_bytes=settings.max_payload_bytes,
        )
        for entry in self._server.client_middleware:
            client.middleware.add(entry)
        RUNTIME.set(
            Runtime(
                client=client,
                redis=pool,
                is_stopping=lambda: self._is_stopping,
                timeout_s=settings.timeout_s,
                max_iteration_runtime_s=settings.max_iteration_runtime_s,
            )
        )
        self._resources.open()
        if self._resources.asynchronous:
            self._started_loop()

    def serve(self) -> None:
        """Run jobs until the worker hangs up; close the resources."""
        threading.Thread(target=self._listen, name="kiqbridge-worker", daemon=True).start()
        state = ProcessState(self._registry, level=logging.DEBUG)
        while (received := self._orders.get()) is not None:
            self._is_busy = True
            if self._is_alone:
                break
            order, text = received
            if "alone" in order:
                answer, body = self._perform_alone(order["alone"], text)
            else:
                answer, body = self._perform(order, text), b""
            state.look(is_idle=True)  # before the next job here
            flush_logging()  # what it said comes before what the worker says of it
            self._is_busy = False
            with contextlib.suppress(OSError):  # then the other thread hears it too
                self._channel.send(answer, body)
        if self._loop is not None:
            self._loop.close()
        self._resources.close()

    def _listen(self) -> None:
        while (received := self._channel.receive()) is not None:
            if "stopping" in received[0]:
                self._is_stopping = True
            else:
                self._orders.put(received)
        self._is_alone = True
        if self._is_busy:  # the worker died: somebody else gets the job
            os.kill(os.getpid(), signal.SIGKILL)
        ending.guarantee(END_S + ending.MARGIN_S)
        self._orders.put(None)
        time.sleep(END_S)
        os._exit(1)

    def _perform_alone(self, order: Mapping[str, Any], text: bytes) -> tuple[dict[str, Any], bytes]:
        """Run a suspect and decide what becomes of it; the answer, and the text that is kept."""

        def perform(job: Order) -> BaseException | None:
            payload: dict[str, Any] = json_text.loads(job.text)
            definition = rails.require(payload, self._registry)
            return self._call(definition, payload, job.queue, self._middleware(job.capsule))

        trial = Trial(
            order,
            began=lambda timeout_s: self._channel.send({"began": timeout_s}),
            perform=perform,
        )
        return trial.run(text, self._settings, self._registry, self._server.backtrace_cleaner)

    def _perform(self, order: Mapping[str, Any], text: bytes) -> dict[str, Any]:
        """Run one job; the answer for the worker."""
        TID.set(order["tid"])
        payload: dict[str, Any] = json_text.loads(text)
        token = CONTEXT.set((payload, order["queue"]))
        try:
            definition = rails.require(payload, self._registry)
            middleware = self._middleware(order["capsule"])
            with log_level.of_job(payload):
                error = self._call(definition, payload, order["queue"], middleware)
            if error is None:
                return {"done": True}
            if isinstance(error, JobInterrupted) and error.is_saved:
                return {"interrupted": True}
            failure = self._failure(error, definition, order, text)
        except KiqbridgeError as refused:  # no such class here
            failure = self._failure(refused, None, order, text)
        finally:
            CONTEXT.reset(token)
        return {"failure": asdict(failure)}

    def _call(
        self,
        definition: JobDefinition,
        payload: dict[str, Any],
        name: str,
        middleware: Chain[ServerMiddleware],
    ) -> BaseException | None:
        """Perform within the middleware; what was raised."""
        try:
            instance = definition.instantiate(str(payload.get("jid")))
            perform = definition.perform_of(instance)
            if not inspect.iscoroutinefunction(perform):
                middleware.invoke(
                    (instance, payload, name), lambda: self._performed(perform, _arguments(payload))
                )
                if job_forks.in_child:  # middleware forked
                    job_forks.end()
                return None
        except BaseException as error:  # noqa: BLE001 - a job's error is never ours
            if job_forks.in_child:
                job_forks.end(error)
            return error

        async def call() -> Any:
            return await perform(*_arguments(payload))

        loop = self._started_loop()
        return loop.run(middleware.invoke_async((instance, payload, name), call, loop.executor))

    def _middleware(self, capsule: str) -> Chain[ServerMiddleware]:
        setup = self._server.capsules.get(capsule)
        if setup is None or setup.middleware is None:
            return self._server.middleware
        return setup.middleware

    def _performed(self, perform: Callable[..., Any], args: list[Any]) -> Any:
        """Call a plain job; a child that it forks ends here, before middleware goes on."""
        try:
            result = self._finished(perform(*args))
        except BaseException as error:
            if job_forks.in_child:
                job_forks.end(error)
            raise
        if job_forks.in_child:
            job_forks.end()
        return result

    def _finished(self, result: Any) -> Any:
        """Wait for a plain function's coroutine."""
        if not inspect.iscoroutine(result):
            return result
        error = self._started_loop().run(result)
        if error is not None:
            raise error
        return None

    def _started_loop(self) -> "_Loop":
        if self._loop is None:
            self._loop = _Loop(self._resources.for_loop())
            LOOP.set(self._loop)
        return self._loop

    def _failure(
        self,
        error: BaseException,
        definition: JobDefinition | None,
        order: Mapping[str, Any],
        text: bytes,
    ) -> Failure:
        payload: dict[str, Any] = json_text.loads(text)  # as fetched, whatever the job did to it
        ruling = rails.rules_of(payload, definition, self._registry)
        answers = Answers(ruling.handling if ruling else DEFAULT_HANDLING)
        decide(
            payload,
            error,
            queue=order["queue"],
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=RetryPolicy(
                max_retries=order["max_retries"], profile=cast("Profile", order["profile"])
            ),
            now=time.time(),
            rng=random.Random(),  # noqa: S311 - the worker's own counts
            handling=answers.handling,
        )
        printed = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
        return Failure(
            error_class=error_class(error),
            message=error_message(error),
            backtrace=backtrace_lines(error),
            mro=[f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__],
            traceback=printed.decode()[-_TRACEBACK_LIMIT:],
            rule=answers.rule_for(error),
            retry_in=answers.retry_in,
            is_given_up=answers.is_given_up,
        )


class Answers:
    """The rules of a class, and what they answered when a decision asked them.

    Attributes:
        handling: the rules, to be asked.
        retry_in: "discard", "kill", seconds, or None.
        is_given_up: whether `retries_exhausted` said "discard".
    """

    def __init__(self, handling: Handling) -> None:
        self._on_error = handling.on_error
        self.retry_in: str | float | None = None
        self.is_given_up = False
        retry_in, exhausted = handling.retry_in, handling.retries_exhausted
        self.handling = replace(
            handling,
            retry_in=retry_in and (lambda *args: self._note_delay(retry_in(*args))),
            retries_exhausted=exhausted and (lambda *args: self._note_end(exhausted(*args))),
        )

    def rule_for(self, error: BaseException) -> str | float | None:
        """What `on_error` says of this error."""
        rules = self._on_error
        return next((rules[kind] for kind in type(error).__mro__ if kind in rules), None)

    def _note_delay(self, answer: object) -> object:
        if isinstance(answer, timedelta):
            answer = answer.total_seconds()
        if isinstance(answer, str | int | float) and not isinstance(answer, bool):
            self.retry_in = answer
        return answer

    def _note_end(self, answer: object) -> object:
        self.is_given_up = answer == "discard"
        return answer


class _Loop:
    """A thread with an event loop on which the asynchronous resources are open."""

    def __init__(self, resources: LoopResources) -> None:
        self.loop = asyncio.new_event_loop()
        self.executor = ElasticExecutor("kiqbridge-bridge")
        self._resources = resources
        threading.Thread(target=self._run, name="kiqbridge-loop", daemon=True).start()
        error = self.run(resources.__aenter__())
        if error is not None:
            raise error

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Run to the end; what was raised, with its own traceback alone."""
        outcome: BaseException | None = asyncio.CancelledError("cancelled before it began")

        async def run() -> None:
            nonlocal outcome
            try:
                await coroutine
            except BaseException as error:  # noqa: BLE001 - a job's error is never ours
                if job_forks.in_child:
                    job_forks.end(error)
                outcome = error
            else:
                if job_forks.in_child:
                    job_forks.end()
                outcome = None

        with contextlib.suppress(CancelledError):  # a job may cancel itself, and yet succeed
            asyncio.run_coroutine_threadsafe(run(), self.loop).result()
        return outcome

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """See `bridge.LoopOwner`: this process ends with its loop."""
        return loop is self.loop

    def _run(self) -> None:
        why = keep_loop_running(self.loop, is_over=lambda: False, report=_report)
        logger.error("the event loop of this child process cannot go on (%s): it ends", why)
        flush_logging()
        os._exit(_LOOP_LOST)

    def close(self) -> None:
        """Close the resources."""
        error = self.run(self._resources.__aexit__())
        if error is not None:
            logger.error("closing the resources failed", exc_info=error)


def _report(what: str, error: BaseException | None) -> None:
    logger.error("the event loop was ended: %s; it goes on", what, exc_info=error)


def _arguments(payload: Mapping[str, Any]) -> list[Any]:
    args = payload.get("args")
    if not isinstance(args, list):
        raise PayloadError(f"args: {shorten(args)} is not a list")
    return args


def _end_without_socket() -> NoReturn:
    """A job has closed descriptors that were not its own: the worker learns it from the exit code."""
    os._exit(_DESCRIPTORS_LOST)


def _tie_to(worker: int) -> None:
    """Die with the worker, and leave the signals that everybody gets to it."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the socket alone must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != worker:
        raise SystemExit(0)
    # The thread that started us may have been begun by a job that blocks signals.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in _FOR_THE_WORKER:
        # Not SIG_IGN, which what a job starts would inherit.
        signal.signal(getattr(signal, f"SIG{name}"), _ignore)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing."""


if __name__ == "__main__":
    # A thread of a job that is stuck in C must not hold it up.
    ending.end_process(main(sys.argv[1:]))
