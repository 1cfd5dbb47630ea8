"""The child process that runs jobs for a worker (process_pool.py): `python -m kiqbridge.features.process_pool.job_child`.

It loads the same code with the worker's own `-r` targets, opens the resources of `server` once, and
runs one job after the other on its main thread, as a worker's thread does (engine/perform/execution.py):

1. An order comes over the socket: `{"queue":"default","tid":"6fz","capsule":"default",…}` and the job's text.
2. It is looked up in this process' registry and performed within the middleware of its capsule.
3. The answer goes back: `{"done":true}`, with its return value if a state machine waits for that,
   `{"interrupted":true}`, or `{"failure":{…}}` with the error's names
   and lines, and what the rules of its class say about it. They are asked here, where the real exception
   is; the worker logs, counts and decides.

It takes its orders from the worker alone: signals that reach the whole group are not for it, and when
the worker is gone so is the child.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from kiqbridge import seams
from kiqbridge.client import rails
from kiqbridge.client.bridge import LOOP
from kiqbridge.client.client import Client
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.client.default_client import adopt_default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.client.server import LoopResources, ProcessResources, server
from kiqbridge.engine.host import ending
from kiqbridge.engine.host.process_state import ProcessState
from kiqbridge.engine.host.signals import IGNORED
from kiqbridge.engine.perform.execution import Execution, JobRunner, NotBegun
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.perform.job_logger import TID, JobLines, configure_logging, flush_logging
from kiqbridge.engine.settle.error_report import error_message
from kiqbridge.features.process_pool.messages import Answering, Channel, ChildSettings
from kiqbridge.runtime import descriptors, frames, job_forks, redaction
from kiqbridge.runtime.elastic_executor import ElasticExecutor
from kiqbridge.runtime.threads import NoThread, keep_loop_running, started
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.job_record import is_watched

logger = logging.getLogger(__name__)

END_S = 5.0
"""How long closing the resources may take once the worker has hung up."""

STACK_LIMIT = 7_500
"""Characters of the stacks that are sent to the worker, their end: the calls of the job."""

_LOOP_LOST = 70
"""Exit code of a child whose event loop cannot go on; its job fails and is tried again."""

_DESCRIPTORS_LOST = 71
"""Exit code when a job has closed the socket to the worker."""

_LISTENER_LOST = 72
"""Exit code when the thread that takes the worker's orders was ended, as by a job: it may have lost one."""

_NO_LINES = JobLines(skip=True)
"""The worker logs `start`, `done` and `fail`."""

_PR_SET_PDEATHSIG = 1
_FOR_THE_WORKER = ("TERM", "INT", "TSTP", "TTIN", *IGNORED)


def main(argv: list[str]) -> int:
    """Run jobs until the worker hangs up.

    Args:
        argv: the number of the socket's file descriptor, and the worker's process id.
    """
    handle, worker = int(argv[0]), int(argv[1])
    # Die with the worker, and leave the signals that everybody gets to it.
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the socket alone must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != worker:
        raise SystemExit(0)
    # The thread that started us may have been begun by a job that blocks signals.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in _FOR_THE_WORKER:
        # Not SIG_IGN, which what a job starts would inherit.
        signal.signal(getattr(signal, f"SIG{name}"), _ignore)
    if sys.stderr is not None:
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
    """What runs in a child, made from the worker's settings.

    Attributes:
        channel: to the worker.
        settings: of the worker.
    """

    def __init__(self, channel: Channel, settings: ChildSettings) -> None:
        self.channel = channel
        self.settings = settings
        self._resources = ProcessResources(server.resources)
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
        settings = self.settings
        pool = RedisPool(settings.redis)
        client = Client(
            namespace=settings.namespace,
            profile=settings.profile,
            pool=pool,
            max_payload_bytes=settings.max_payload_bytes,
        )
        if settings.fleets:
            client.use_fleets(settings.fleets)
        for entry in server.client_middleware:
            client.middleware.add(entry)
        adopt_default_client(client)
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
        state = ProcessState(default_registry, level=logging.DEBUG)
        while (received := self._orders.get()) is not None:
            self._is_busy = True
            if self._is_alone:
                break
            order, text = received
            body = b""
            try:
                if "feature" in order:
                    answer, body = self._ask(order["feature"], order["order"], text)
                else:
                    answer = self._perform(order, text)
            except NotBegun as error:
                answer = {"not_begun": str(error)}
            state.look(is_idle=True)  # before the next job here
            flush_logging()  # what it said comes before what the worker says of it
            self._is_busy = False
            with contextlib.suppress(OSError):  # then the other thread hears it too
                self.channel.send(answer, body)
        if self._loop is not None:
            self._loop.close()
        self._resources.close()

    def _listen(self) -> None:
        try:
            self._take_orders()
        except BaseException:
            logger.exception(
                "the thread that takes orders was ended, as by a job: this child process ends; the job that it was "
                "given is tried again"
            )
            flush_logging()
        finally:
            os._exit(_LISTENER_LOST)

    def _take_orders(self) -> NoReturn:
        while (received := self.channel.receive()) is not None:
            if "stopping" in received[0]:
                self._is_stopping = True
            elif "stack" in received[0]:
                with contextlib.suppress(OSError):
                    self.channel.send({"stack": _stacks_of_others()[-STACK_LIMIT:]})
            else:
                self._orders.put(received)
        self._is_alone = True
        if self._is_busy:  # the worker died: somebody else gets the job
            os.kill(os.getpid(), signal.SIGKILL)
        ending.kill_after(END_S + ending.MARGIN_S)
        self._orders.put(None)
        time.sleep(END_S)
        os._exit(1)

    def _ask(
        self, name: str, order: Mapping[str, Any], text: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """What a feature makes of a job here: the answer, and the text that goes along."""
        asked = seams.named(name)
        assert asked is not None  # noqa: S101 - the worker has it, and this is its code
        answer: tuple[dict[str, Any], bytes] = asked.load(asked.in_child)(self, order, text)
        return answer

    def _perform(self, order: Mapping[str, Any], text: bytes) -> dict[str, Any]:
        """Run one job; the answer for the worker, which has read it, logs it and decides about it."""
        TID.set(order["tid"])
        payload: dict[str, Any] = json_text.loads(text)
        definition = rails.find(payload, default_registry)
        execution = Execution(text, order["queue"], payload, definition, is_watched(payload))
        outcomes = Answering(order, default_registry)
        runner = JobRunner(
            registry=default_registry,
            invoker=self.invoker(order["capsule"]),
            outcomes=outcomes,
            lines=_NO_LINES,
        )
        answer = runner.perform(execution, _MainThread(order["tid"]))
        return outcomes.succeeded(execution) if answer is None else answer

    def invoker(self, capsule: str) -> Invoker:
        """Calls jobs within the middleware of their capsule; it is the worker that enforces `timeout_s`."""
        setup = server.capsules.get(capsule)
        middleware = setup.middleware if setup is not None else None
        return Invoker(
            server.middleware if middleware is None else middleware, loop=self._started_loop
        )

    def _started_loop(self) -> "_Loop":
        if self._loop is None:
            self._loop = _Loop(self._resources.for_loop())
            LOOP.set(self._loop)
        return self._loop


@dataclass(slots=True)
class _MainThread:
    """Runs jobs; a worker that wants one to end kills the process."""

    tid: str
    performing: bool = False

    @property
    def interrupted(self) -> bool:
        return False


class _Loop:
    """A thread with an event loop on which the asynchronous resources are open."""

    def __init__(self, resources: LoopResources) -> None:
        self.loop = asyncio.new_event_loop()
        self.executor = ElasticExecutor("kiqbridge-bridge")
        self._resources = resources
        try:
            started(threading.Thread(target=self._run, name="kiqbridge-loop", daemon=True))
        except NoThread:
            self.loop.close()
            raise
        self.run(resources.__aenter__())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run to the end, and return its result; raises what was raised there."""
        outcome: BaseException | None = asyncio.CancelledError("cancelled before it began")
        result: Any = None

        async def run() -> None:
            nonlocal outcome, result
            try:
                result = await coroutine
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
        if outcome is not None:
            raise outcome
        return result

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the event loop serves jobs (`bridge.LoopOwner`): this process ends with its loop."""
        return loop is self.loop

    def _run(self) -> None:
        why = keep_loop_running(self.loop, is_over=lambda: False, report=_report)
        logger.error("the event loop of this child process cannot continue (%s): it ends", why)
        flush_logging()
        os._exit(_LOOP_LOST)

    def close(self) -> None:
        """Close the resources."""
        try:
            self.run(self._resources.__aexit__())
        except BaseException:
            logger.exception("closing the resources failed")


def _report(what: str, error: BaseException | None) -> None:
    logger.error("the event loop was stopped: %s; it continues", what, exc_info=error)


def _stacks_of_others() -> str:
    """Where the threads of this process are but the calling one; last the main one, which runs the job."""
    own = threading.get_ident()
    found = [f"{name}\n{stack}" for ident, name, stack in frames.stacks() if ident != own]
    return "\n".join(reversed(found))


def _end_without_socket() -> NoReturn:
    """A job has closed descriptors that were not its own: the worker learns it from the exit code."""
    os._exit(_DESCRIPTORS_LOST)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing."""


if __name__ == "__main__":
    # A thread of a job that is stuck in C must not hold it up.
    ending.end_process(main(sys.argv[1:]))
