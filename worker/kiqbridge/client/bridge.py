"""Chains in which `async def` middleware and plain functions meet (protocol §15.5).

A plain function cannot await and a coroutine must not block its loop, so where the kind changes the
call crosses to another thread: `async def` middleware around a plain job runs on a loop while the
job's thread waits for its turn, and plain middleware around an `async def` job runs on a thread that
waits for the job on the loop; adjacent plain ones share that thread. Context variables are carried
over in both directions.

Nothing here waits for ever for a loop that has ended: the call fails, and so does its job.
"""

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeVar

from kiqbridge.runtime import frames, job_forks
from kiqbridge.runtime.interruption import PENDING, checkpoint
from kiqbridge.runtime.threads import NoThread, keep_loop_running, started
from kiqbridge.runtime.user_code import is_async, link

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 2.0
"""How often a thread that waits for a loop looks whether that still runs."""


class LoopOwner(Protocol):
    """Who runs an event loop, and may replace it by another one when it cannot go on."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs now."""

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it still runs this one; if not, nothing that waits on it will ever go on."""


LOOP: contextvars.ContextVar[LoopOwner | None] = contextvars.ContextVar(
    "kiqbridge_loop", default=None
)
"""Set in threads that run jobs: who runs the loop of their capsule, on which its resources are open."""

OWNER: contextvars.ContextVar[LoopOwner | None] = contextvars.ContextVar(
    "kiqbridge_loop_owner", default=None
)
"""Set in tasks of `async def` jobs: who runs the loop that they run on."""


class _Turn(NamedTuple):
    """The middleware has called on: the rest is to be run in the waiting thread."""

    context: contextvars.Context
    done: "asyncio.Future[Any]"


class _Ended(NamedTuple):
    """An error that would end the loop itself if a task raised it."""

    error: BaseException


class _Background:
    """A loop for processes that run none."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or not self._runs():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run_on, args=(loop,), name="kiqbridge-middleware", daemon=True
                )
                try:
                    self._thread = started(thread)
                except NoThread:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        return loop is self._loop and self._runs()

    def _runs(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    why = keep_loop_running(loop, is_over=lambda: False, report=_report)
    logger.error(
        "the event loop of the middleware cannot continue (%s); the next job gets another one", why
    )


def _report(what: str, error: BaseException | None) -> None:
    logger.error(
        "the event loop of the middleware was stopped: %s; it continues", what, exc_info=error
    )


_background = _Background()
_nested = _Background()
"""For what middleware on one of the other loops calls."""


def _forget_loops() -> None:
    """In a child that a job forks no loop of the parent's runs; a push there may need one of its own."""
    _background.begin_anew()
    _nested.begin_anew()
    LOOP.set(None)


job_forks.on_child(_forget_loops)


def invoke(
    entries: Sequence[Callable[..., Any]], args: tuple[Any, ...], final: Callable[[], Any]
) -> Any:
    """Run a chain with asynchronous entries around a plain function, on this thread."""
    call = final
    for entry in reversed(entries):
        call = _around_plain(entry, args, call)
    return call()


async def invoke_async(
    entries: Sequence[Callable[..., Any]],
    args: tuple[Any, ...],
    final: Callable[[], Awaitable[Any]],
    executor: Executor,
) -> Any:
    """Run a chain around a coroutine; `executor` lends threads to plain entries.

    Each running job takes one thread for each group of adjacent plain entries, and holds it while the
    rest runs. So the executor must never let one wait for another: see `ElasticExecutor`.
    """
    call = final
    for is_plain, group in groupby(reversed(entries), _needs_a_thread):
        if is_plain:
            call = _on_a_thread([*group][::-1], args, call, executor)
        else:
            for entry in group:
                call = _around_coroutine(entry, args, call)
    return await call()


@frames.may_take_long
def _around_plain(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Callable[[], Any]:
    if not is_async(entry):
        return link(entry, args, call_next)
    return lambda: _await_on_a_loop(entry, args, call_next)


def _owner() -> LoopOwner:
    """Whose loop `async def` middleware runs on: never that of this thread, which would wait for itself."""
    here = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises
    for owner in (LOOP.get(), _background):
        if owner is not None and (here is None or owner.loop is not here):
            return owner
    return _nested


@frames.may_take_long
def _await_on_a_loop(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Any:
    owner = _owner()
    loop = owner.loop
    turns: queue.SimpleQueue[_Turn | None] = queue.SimpleQueue()

    async def rest() -> Any:
        done: asyncio.Future[Any] = loop.create_future()
        turns.put(_Turn(contextvars.copy_context(), done))
        return await done

    async def run() -> Any:
        return await _contained(entry(*args, rest))

    running = run()
    try:
        outcome: Future[Any] = asyncio.run_coroutine_threadsafe(running, loop)
    except RuntimeError:  # closed
        running.close()
        raise
    outcome.add_done_callback(lambda _done: turns.put(None))
    while (turn := _next_turn(turns, owner, loop)) is not None:
        try:
            result = turn.context.run(call_next)
        except BaseException as error:  # noqa: BLE001 - it is the middleware's to see, whatever it is
            loop.call_soon_threadsafe(_fail, turn.done, error)
        else:
            loop.call_soon_threadsafe(_finish, turn.done, result)
    return _released(outcome.result())


@frames.may_take_long
def _next_turn(
    turns: "queue.SimpleQueue[_Turn | None]", owner: LoopOwner, loop: asyncio.AbstractEventLoop
) -> _Turn | None:
    while True:
        with contextlib.suppress(queue.Empty):
            return turns.get(timeout=LOOK_S)
        if PENDING:  # a push of a job, whose `async def` middleware does not come back
            checkpoint()
        if not owner.serves(loop):
            raise RuntimeError(
                "the event loop on which `async def` middleware of this job ran has ended; the log of "
                "this worker says why"
            )


async def _contained(awaited: Awaitable[Any]) -> Any:
    try:
        return await awaited
    except (SystemExit, KeyboardInterrupt) as error:
        return _Ended(error)


def _released(result: Any) -> Any:
    if isinstance(result, _Ended):
        raise result.error
    return result


def _finish(done: "asyncio.Future[Any]", result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", error: BaseException) -> None:
    if isinstance(
        error, StopIteration
    ):  # a future refuses it, and the middleware would wait for ever
        error = RuntimeError(f"the job raised StopIteration: {error.value!r}")
    if not done.done():
        done.set_exception(error)


def _needs_a_thread(entry: Callable[..., Any]) -> bool:
    return not is_async(entry) and not hasattr(entry, "call_async")


def _around_coroutine(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Awaitable[Any]]
) -> Callable[[], Awaitable[Any]]:
    if is_async(entry):
        return link(entry, args, call_next)
    call_async: Callable[..., Awaitable[Any]] = entry.call_async  # type: ignore[attr-defined]
    return link(call_async, args, call_next)


def _on_a_thread(
    entries: Sequence[Callable[..., Any]],
    args: tuple[Any, ...],
    call_next: Callable[[], Awaitable[Any]],
    executor: Executor,
) -> Callable[[], Awaitable[Any]]:
    """Adjacent plain entries around a coroutine: all on one thread, and once to the loop for the rest."""

    async def on_a_thread() -> Any:
        loop = asyncio.get_running_loop()
        rest = _Rest(call_next, loop)
        call: Callable[[], Any] = rest
        for entry in reversed(entries):
            call = link(entry, args, call)
        context = contextvars.copy_context()
        try:
            return await loop.run_in_executor(executor, context.run, call)
        except asyncio.CancelledError:
            rest.cancel()  # cancelling the job cancels what it awaits
            raise

    return on_a_thread


class _Rest:
    """What plain middleware calls on to: a coroutine on the loop, for which its thread waits."""

    def __init__(
        self, call_next: Callable[[], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._call_next = call_next
        self._loop = loop
        self._owner = OWNER.get()
        self._lock = threading.Lock()
        self._begun: list[Future[Any]] = []
        self._is_cancelled = False

    def __call__(self) -> Any:
        with self._lock:
            if self._is_cancelled:  # before the thread came to it: the job may be another's already
                raise asyncio.CancelledError
            running = self._run()
            try:
                begun = asyncio.run_coroutine_threadsafe(running, self._loop)
            except RuntimeError:  # closed
                running.close()
                raise
            self._begun.append(begun)
        return _released(self._wait(begun))

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            begun = list(self._begun)
        for each in begun:
            each.cancel()

    async def _run(self) -> Any:
        return await _contained(self._call_next())

    def _wait(self, begun: Future[T]) -> T:
        while True:
            with contextlib.suppress(TimeoutError):
                return begun.result(LOOK_S)
            if begun.done():  # a TimeoutError of its own
                return begun.result()
            if self._loop.is_closed() or (self._owner and not self._owner.serves(self._loop)):
                raise RuntimeError(
                    "the event loop on which this job ran has ended; the log of this worker says why"
                )
