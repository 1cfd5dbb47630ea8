"""One execution of an iterable job (protocol §13.2).

1. Load the progress.
2. Build the enumerator from the cursor.
3. `on_start`, or `on_resume`.
4. For each item: remember its cursor, save the progress every 5 s, `each_iteration`.
5. `on_stop`.
6. `on_complete`, and delete the progress; or save it, and raise `JobInterrupted`.

A cursor is saved only when all before it is done, so nothing is ever left out: what was being processed
when a process is killed is processed again, with all since the last flush. The progress is the hash `it-JID` (§13.1),
which is Sidekiq's: a job may be interrupted by a Ruby process and go on here, or be cancelled from either side.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeVar

from kiqbridge import errors
from kiqbridge.client.current import RUNTIME, Cancelled
from kiqbridge.features.iterable.state import state_of
from kiqbridge.runtime import frames, job_forks, user_code
from kiqbridge.runtime.interruption import PENDING, check
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import check_json

logger = logging.getLogger(__name__)

FLUSH_S = 5.0
"""Seconds between two flushes: so much is done again after a kill, so late is a cancel noticed."""

_KEEPING = "keeping the progress of iterable jobs"

RETRY_S = 1.0
"""Pause between two attempts to reach Redis."""

T = TypeVar("T")

_END: Any = object()


class Abort(BaseException):
    """The job ends itself; a BaseException so that `except Exception` in it does not swallow it."""

    def __init__(self, completed: bool) -> None:  # noqa: FBT001 - built in one place
        super().__init__("abort() ends an iteration, so it has no place after the last one")
        self.completed = completed


class Callbacks:
    """What an execution calls; each job defines `build_enumerator` and `each_iteration`.

    Attributes:
        max_iteration_runtime_s: seconds after which an execution makes room for other jobs, at the
            end of an item; None: the setting `max_iteration_runtime`.
        jid: of the job.
    """

    max_iteration_runtime_s: ClassVar[float | None] = None
    jid: str

    def build_enumerator(self, *args: Any, **kwargs: Any) -> Any:
        """The (item, cursor) pairs from a cursor on; see `kiqbridge.enumerators`.

        Args:
            args: the job's arguments.
            kwargs: `cursor`, as it was paired with the item that comes first now; None for the very
                first item. It must have a JSON text.

        Returns:
            An iterator or, for `async def each_iteration`, an asynchronous one. None: nothing to do.
        """
        raise NotImplementedError

    def each_iteration(self, *args: Any, **kwargs: Any) -> Any:
        """Process one item: called with the item and the job's arguments, plain or `async def`."""
        raise NotImplementedError

    def around_iteration(
        self,
    ) -> AbstractContextManager[object] | AbstractAsyncContextManager[object]:
        """A context manager around each `each_iteration`, such as a transaction."""
        return nullcontext()

    def on_start(self) -> object:
        """Called when the job runs for the first time."""

    def on_resume(self) -> object:
        """Called when the job runs again: after an interruption or an error."""

    def on_cancel(self) -> object:
        """Called when a request to cancel is noticed; `on_stop` and `on_complete` follow."""

    def on_stop(self) -> object:
        """Called at the end of each execution, however it ends, except by a hard shutdown or a kill."""

    def on_complete(self) -> object:
        """Called when no items are left, and also after a cancel."""


@frames.may_take_long
class Iteration:
    """One execution of an iterable job.

    Args:
        job: its callbacks are called.
        args: of the job.
        is_async: whether it runs on the event loop: then Redis is asked on another thread, so that the loop's other
            jobs go on. Else everything blocks, no await ever suspends, and no event loop is needed.
        has_around: whether the job has an `around_iteration` of its own: one that does nothing costs as
            much as a short iteration.

    Attributes:
        item: the current one, None before the first.
        cancelled: whether a request to cancel was noticed.
        state: the progress.
    """

    def __init__(
        self, job: Callbacks, args: tuple[Any, ...], *, is_async: bool, has_around: bool
    ) -> None:
        self.args = args
        self.item: Any = None
        self.cancelled = False
        self._job = job
        self._is_async = is_async
        self._runtime = RUNTIME.get()
        self.state = state_of(job.jid, self._runtime)
        self._has_around = has_around
        self._longest_s = type(job).max_iteration_runtime_s or (
            self._runtime.max_iteration_runtime_s if self._runtime else None
        )
        self._started = self._flushed = 0.0

    async def run(self) -> Cancelled | None:
        """The steps of §13.2.

        Raises:
            JobInterrupted: it is to be pushed again.
        """
        state, job = self.state, self._job
        await self._redis(state.load)
        state.executions += 1
        pairs = await _result(job.build_enumerator(*self.args, cursor=state.cursor))
        if pairs is None:
            logger.info("build_enumerator answered None: there is nothing to iterate")
            return None
        name = f"build_enumerator of {type(job).__qualname__}"
        if isinstance(pairs, AsyncIterator) and not self._is_async:
            raise TypeError(f"{name}: an asynchronous enumerator needs `async def each_iteration`")
        if isinstance(pairs, enumerate):
            raise TypeError(
                f"{name}: enumerate gives (index, item), but (item, cursor) is needed; use enumerators.sequence"
            )
        if not isinstance(pairs, Iterator | AsyncIterator):
            raise TypeError(
                f"{name}: {shorten(pairs)} is no iterator of (item, cursor) pairs; see "
                "kiqbridge.enumerators, or yield the pairs"
            )
        self._started = self._flushed = time.monotonic()
        try:
            completed = await self._iterate_abortable(pairs)
        finally:
            # End a generator now, so that the files it has opened are closed.
            close = getattr(pairs, "aclose", None) or getattr(pairs, "close", None)
            if close is not None:
                await _result(close())
        if completed:
            await self._saving_on_error(job.on_complete)
            await self._redis(state.forget)
            return Cancelled.CANCELLED if self.cancelled else None
        await self._redis(state.flush)
        interruption = errors.JobInterrupted(
            f"{type(job).__qualname__} is interrupted at cursor {shorten(state.cursor)}"
        )
        interruption.is_saved = True
        raise interruption

    async def _iterate_abortable(self, pairs: Any) -> bool:
        """Whether the job is complete."""
        job = self._job
        try:
            await _result(job.on_start() if self.state.executions == 1 else job.on_resume())
        except Abort as abort:
            completed = abort.completed
        else:
            completed = await self._guarded(pairs)
        await self._saving_on_error(job.on_stop)
        self.state.runtime_s += time.monotonic() - self._started
        return completed

    async def _guarded(self, pairs: Any) -> bool:
        """Iterate; an error is passed on after the progress is saved and `on_stop` was called."""
        try:
            return await self._iterate(pairs)
        except Abort as abort:
            return abort.completed
        except BaseException as error:
            if self._was_given_back(error):
                raise
            await self._save_after(error)
            try:
                await _result(self._job.on_stop())
            except BaseException as second:
                if self._was_given_back(second):
                    raise
                user_code.log_error(
                    logger, second, "on_stop failed too, after the error that ended the iteration"
                )
            raise

    async def _saving_on_error(self, callback: Callable[[], object]) -> None:
        try:
            await _result(callback())
        except BaseException as error:
            if not self._was_given_back(error):
                await self._save_after(error)
            raise

    async def _iterate(self, pairs: Any) -> bool:
        """Whether no items are left; being cancelled counts as that."""
        state, job = self.state, self._job
        if await self._redis(state.is_cancelled):
            await self._cancel()
            return True
        is_async = hasattr(pairs, "__anext__")
        is_first = True
        while True:
            pair = await anext(pairs, _END) if is_async else next(pairs, _END)
            if pair is _END:
                return True
            if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004 - a pair
                raise TypeError(
                    f"build_enumerator of {type(job).__qualname__}: {shorten(pair)} is no (item, cursor) "
                    "pair; yield a tuple of the item and what it is found again by"
                )
            self.item, state.cursor = pair
            if is_first:
                check_json(state.cursor, "cursor")  # at once, not after 5 s of work
            if PENDING:  # each iteration may be too short to be met in
                check()
            now = time.monotonic()
            interrupting = self._must_stop(now, is_first=is_first)
            is_first = False
            if interrupting or now - self._flushed >= FLUSH_S:
                self._flushed = now
                if await self._redis(state.flush):
                    await self._cancel()
                    return True
            if interrupting:
                return False
            await self._perform()

    async def _perform(self) -> None:
        job, runtime = self._job, self._runtime
        began = time.monotonic()
        if self._has_around:
            around: Any = job.around_iteration()
            if hasattr(around, "__aenter__") and self._is_async:
                async with around:
                    await _result(job.each_iteration(self.item, *self.args))
            else:
                with around:
                    await _result(job.each_iteration(self.item, *self.args))
        else:
            result = job.each_iteration(self.item, *self.args)
            if result is not None:
                await _result(result)
        if job_forks.in_child:  # the parent goes on with the other items, and keeps the progress
            job_forks.end()
        if runtime is not None:
            took_s = time.monotonic() - began
            if took_s > runtime.timeout_s:
                logger.warning(
                    "an iteration at cursor %s took %.1f s, longer than the %.1f s that a worker has to "
                    "stop: it would be cut off and done again; process less per item",
                    shorten(self.state.cursor),
                    took_s,
                    runtime.timeout_s,
                )

    def _must_stop(self, now: float, *, is_first: bool) -> bool:
        if not self.state.is_kept or self._runtime is None:
            return False
        if self._runtime.is_stopping():
            return True
        # Not before one item is done: a slow enumerator would otherwise keep the job from ever advancing.
        return (
            not is_first and self._longest_s is not None and now - self._started > self._longest_s
        )

    async def _cancel(self) -> None:
        self.cancelled = True
        logger.info("cancelled at cursor %s", shorten(self.state.cursor))
        await _result(self._job.on_cancel())

    async def _redis(self, call: Callable[[], T]) -> T:
        """Repeat until Redis answers: what is done meanwhile could not be saved. A missing right is not the job's fault, either.

        A worker that stops ends this wait as it ends all running jobs.
        """
        is_reported = False
        troubles = self._runtime.troubles if self._runtime is not None else None
        while True:
            try:
                result = await _off_loop(call) if self._is_async else call()
            except (errors.RedisUnavailable, errors.RedisRefused) as error:
                if isinstance(error, errors.RedisRefused) and not error.is_forbidden:
                    raise
                if troubles is not None and not error.may_pass:
                    troubles.failed(_KEEPING, error)
                elif not is_reported:
                    logger.warning("the iteration waits for Redis: %s", error)
                is_reported = True
            else:
                if is_reported and troubles is not None:
                    troubles.worked(_KEEPING)
                return result
            if self._is_async:
                import asyncio  # noqa: PLC0415 - as above

                await asyncio.sleep(RETRY_S)
            else:
                time.sleep(RETRY_S)  # noqa: ASYNC251 - there is no loop to block

    async def _save_after(self, error: BaseException) -> None:
        """Save the progress before an error is passed on (Sidekiq 8.0.4 and later)."""
        if job_forks.in_child:
            job_forks.end(error)
        try:
            await self._redis(self.state.flush)
        except errors.KiqbridgeError as second:
            logger.warning(
                "after %s the progress could not be saved, the next try begins at an earlier item: %s",
                type(error).__name__,
                second,
            )

    def _was_given_back(self, error: BaseException) -> bool:
        """Whether the worker's end cut it off: then another may have the job, and write its progress."""
        if isinstance(error, errors.Shutdown):
            return True
        stopping = self._runtime is not None and self._runtime.is_stopping()
        return stopping and not isinstance(error, Exception)


async def _off_loop(call: Callable[[], T]) -> T:
    import asyncio  # noqa: PLC0415 - most who only enqueue never need it

    return await asyncio.to_thread(call)


def finish(steps: Coroutine[Any, Any, T]) -> T:
    """Run steps that never suspend to their end, without an event loop."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    steps.close()
    raise TypeError(
        "something asynchronous was awaited by an iterable job whose each_iteration is plain; make "
        "each_iteration `async def`"
    )


async def _result(value: Any) -> Any:
    """The value itself, or what it stands for if it is to be awaited; of a job that was pushed its handle."""
    return await value if isinstance(value, Awaitable) and not isinstance(value, str) else value
