"""Enqueuing from a coroutine: the push runs on a thread, and the event loop goes on.

1. `await send.aperform_async(42)` hands `send.perform_async(42)` to one of a few threads of this module.
2. It runs there in a copy of the task's context: current attributes, the log context and a trace are those
   of the task. Middleware, errors and results are the same as those of the plain call.
3. A task that is cancelled while it waits gets no answer: what has begun is finished, so the job may have been
   enqueued. What has not begun is not enqueued.
"""

import contextvars
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from kiqbridge.runtime.threads import CANNOT_START

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 8
"""How many pushes may wait for Redis at once; fewer than a client has connections (16)."""

_lock = threading.Lock()
_threads: "ThreadPoolExecutor | None" = None


async def off_loop(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that blocks on a thread, in the context of this task; needs asyncio.

    Raises:
        BaseException: what the function raised.
        RuntimeError: the system has no room for another thread; the function is not called.
    """
    # A process with an event loop has these loaded.
    import asyncio  # noqa: PLC0415
    from concurrent.futures import Future  # noqa: PLC0415

    outcome: Future[R] = Future()
    context = contextvars.copy_context()

    def call() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised in the caller that waits
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    try:
        push_threads().submit(call)
    except CANNOT_START:
        # The call waits there all the same, and would be made when another one brings a thread.
        if outcome.cancel():
            raise
    return await asyncio.wrap_future(outcome)


def push_threads() -> "ThreadPoolExecutor":
    """The threads on which pushes of coroutines wait for Redis."""
    global _threads  # noqa: PLW0603 - one set of threads for the process
    with _lock:
        if _threads is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as asyncio

            _threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kiqbridge-push")
        return _threads


def _forget() -> None:
    """A child of a fork has none of the threads."""
    global _lock, _threads
    _lock, _threads = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
