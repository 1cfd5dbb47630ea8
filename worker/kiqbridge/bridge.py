"""Chains in which `async def` middleware and plain functions meet (protocol §15.5).

A plain function cannot await and a coroutine must not block its loop, so where the kind changes the
call crosses to another thread: `async def` middleware around a plain job runs on a loop while the
job's thread waits for its turn, and plain middleware around an `async def` job runs on a thread that
waits for the job on the loop. Context variables are carried over in both directions.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

from kiqbridge import job_forks
from kiqbridge.middleware import is_async

LOOP: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar(
    "kiqbridge_loop", default=None
)
"""Set in threads that run jobs: the loop of their capsule, on which its resources are open."""


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

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="kiqbridge-middleware", daemon=True
                ).start()
            return self._loop


_background = _Background()


def _forget_loops() -> None:
    """In a child that a job forks no loop of the parent's runs; a push there may need one of its own."""
    _background.begin_anew()
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

    Each running job takes one of its threads for each change of kind: with fewer, jobs wait.
    """
    call = final
    for entry in reversed(entries):
        call = _around_coroutine(entry, args, call, executor)
    return await call()


def _around_plain(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Callable[[], Any]:
    if not is_async(entry):
        return lambda: entry(*args, call_next)
    return lambda: _await_on_a_loop(entry, args, call_next)


def _await_on_a_loop(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Any:
    loop = LOOP.get() or _background.loop()
    turns: queue.SimpleQueue[_Turn | None] = queue.SimpleQueue()

    async def rest() -> Any:
        done: asyncio.Future[Any] = loop.create_future()
        turns.put(_Turn(contextvars.copy_context(), done))
        return await done

    async def run() -> Any:
        return await _contained(entry(*args, rest))

    outcome: Future[Any] = asyncio.run_coroutine_threadsafe(run(), loop)
    outcome.add_done_callback(lambda _done: turns.put(None))
    while (turn := turns.get()) is not None:
        try:
            result = turn.context.run(call_next)
        except BaseException as error:  # noqa: BLE001 - it is the middleware's to see, whatever it is
            loop.call_soon_threadsafe(_fail, turn.done, error)
        else:
            loop.call_soon_threadsafe(_finish, turn.done, result)
    return _released(outcome.result())


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


def _around_coroutine(
    entry: Callable[..., Any],
    args: tuple[Any, ...],
    call_next: Callable[[], Awaitable[Any]],
    executor: Executor,
) -> Callable[[], Awaitable[Any]]:
    if is_async(entry):
        return lambda: entry(*args, call_next)
    if hasattr(entry, "call_async"):
        call_async: Callable[..., Awaitable[Any]] = entry.call_async
        return lambda: call_async(*args, call_next)

    async def on_a_thread() -> Any:
        loop = asyncio.get_running_loop()
        inner: list[Future[Any]] = []

        async def run() -> Any:
            return await _contained(call_next())

        def rest() -> Any:
            inner.append(asyncio.run_coroutine_threadsafe(run(), loop))
            return _released(inner[-1].result())

        context = contextvars.copy_context()
        try:
            return await loop.run_in_executor(executor, lambda: context.run(entry, *args, rest))
        except asyncio.CancelledError:
            for each in inner:  # whoever cancels the job means what it awaits
                each.cancel()
            raise

    return on_a_thread
