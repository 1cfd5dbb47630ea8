"""Long jobs that can stop between two items and go on later, maybe in another process (protocol §13).

class ImportUsers(IterableJob):
    queue = "low"

    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[dict, int]]:
        return enumerators.csv_rows(path, cursor=cursor)

    def each_iteration(self, row: dict, path: str) -> None:
        User.upsert(row)

ImportUsers.perform_async("users.csv")

One execution goes: load the progress → build the enumerator from the cursor → `on_start` or
`on_resume` → for each item: remember its cursor, save the progress every 5 s, `each_iteration` →
`on_stop` → `on_complete`. When the worker is told to stop, or the execution has lasted too long, the
progress is saved and `JobInterrupted` tells the worker to push the job again to the end of its queue.
What was being processed when a process is killed is processed again, with all since the last flush;
nothing is ever left out, since a cursor is saved only when all before it is done.
"""

import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from kiqbridge import frames, job_forks, user_code
from kiqbridge.current import CONTEXT, RUNTIME, Runtime
from kiqbridge.errors import ConfigError, JobInterrupted, KiqbridgeError, RedisUnavailable, Shutdown
from kiqbridge.interruption import PENDING, check
from kiqbridge.iteration_state import IterationState
from kiqbridge.job import Job
from kiqbridge.payload import check_json, shorten
from kiqbridge.registry import MARK

logger = logging.getLogger(__name__)

FLUSH_S = 5.0
"""Seconds between two flushes: so much is done again after a kill, so late is a cancel noticed."""

RETRY_S = 1.0
"""Pause between two attempts to reach Redis."""

T = TypeVar("T")

_END: Any = object()
_OURS = "__kiqbridge_iteration__"


class IterableJob(Job):
    """Base of jobs that process many items; define `build_enumerator` and `each_iteration`.

    With `async def each_iteration` it runs on the event loop: then the callbacks may be `async def`
    too, and the enumerator and `around_iteration` asynchronous. A subclass is registered when it is
    defined, except one declared with `abstract=True`, a base for others.

    Attributes:
        max_iteration_runtime_s: seconds after which an execution makes room for other jobs, at the
            end of an item; None: the setting `max_iteration_runtime`.
    """

    max_iteration_runtime_s: ClassVar[float | None] = None
    _kiqbridge_run: "_Run | None" = None  # a name that no job has by chance

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        _check_declaration(cls, abstract=abstract)
        perform = None if abstract else _perform_of(cls)
        setattr(cls, "perform", perform)  # noqa: B010 - mypy: the class declares no such attribute
        setattr(cls, MARK, None)  # not that of a base which is a job itself
        super().__init_subclass__(**kwargs)

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

    @property
    def cursor(self) -> Any:
        """The cursor of the current item; before the first one what was saved, or None."""
        return self._kiqbridge_run.state.cursor if self._kiqbridge_run else None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the job that runs."""
        return self._kiqbridge_run.args if self._kiqbridge_run else ()

    @property
    def current_object(self) -> Any:
        """The current item, None before the first one."""
        return self._kiqbridge_run.item if self._kiqbridge_run else None

    @property
    def cancelled(self) -> bool:
        """Whether a request to cancel was noticed."""
        return self._kiqbridge_run is not None and self._kiqbridge_run.cancelled

    def abort(self, *, completed: bool = True) -> NoReturn:
        """End this execution here, from a callback before or during an iteration.

        Args:
            completed: the job is done: `on_complete` follows. False: it is pushed again to the end of
                its queue, and goes on with the current item.
        """
        raise _Abort(completed)


class _Abort(BaseException):
    """The job ends itself; a BaseException so that `except Exception` in it does not swallow it."""

    def __init__(self, completed: bool) -> None:  # noqa: FBT001 - built in one place
        super().__init__("abort() ends an iteration, so it has no place after the last one")
        self.completed = completed


class _Mode(Protocol):
    """How the run waits: the same steps serve a thread and the event loop."""

    async def redis(self, function: Callable[[], T]) -> T: ...

    async def pause(self, seconds: float) -> None: ...


@frames.may_take_long
class _OnThread:
    """Everything blocks, so that no await ever suspends, and no event loop is needed."""

    async def redis(self, function: Callable[[], T]) -> T:
        return function()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop to block


class _OnLoop:
    """Redis is asked on another thread, so that the loop's other jobs go on."""

    async def redis(self, function: Callable[[], T]) -> T:
        import asyncio  # noqa: PLC0415 - most who only enqueue never need it

        return await asyncio.to_thread(function)

    async def pause(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - as above

        await asyncio.sleep(seconds)


class _InMemory:
    """The progress of a job that runs outside a worker: nobody interrupts it, and nothing is kept."""

    def __init__(self) -> None:
        self.executions = 0
        self.cursor: Any = None
        self.runtime_s: float = 0

    def load(self) -> None:
        """Nothing is known."""

    def is_cancelled(self) -> bool:
        """Nobody can have asked."""
        return False

    def flush(self) -> bool:
        """As `is_cancelled`."""
        return False

    def forget(self) -> None:
        """Nothing is kept."""


@frames.may_take_long
class _Run:
    """One execution of an iterable job."""

    def __init__(self, job: IterableJob, args: tuple[Any, ...], mode: _Mode) -> None:
        self.args = args
        self.item: Any = None
        self.cancelled = False
        self._job = job
        self._mode = mode
        self._runtime = RUNTIME.get()
        self.state = _state_of(job, self._runtime)
        self._keeps = isinstance(self.state, IterationState)
        # A context manager that does nothing costs as much as a short iteration.
        self._has_around = type(job).around_iteration is not IterableJob.around_iteration
        self._longest_s = type(job).max_iteration_runtime_s or (
            self._runtime.max_iteration_runtime_s if self._runtime else None
        )
        self._started = self._flushed = 0.0

    async def run(self) -> None:
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
            return
        _check_enumerator(job, pairs, is_async=isinstance(self._mode, _OnLoop))
        self._started = self._flushed = time.monotonic()
        try:
            completed = await self._iterate_abortable(pairs)
        finally:
            await _close(pairs)
        if completed:
            await self._saving_on_error(job.on_complete)
            await self._redis(state.forget)
            return
        await self._redis(state.flush)
        interruption = JobInterrupted(
            f"{type(job).__qualname__} is interrupted at cursor {shorten(state.cursor)}"
        )
        interruption.is_saved = True
        raise interruption

    async def _iterate_abortable(self, pairs: Any) -> bool:
        """Whether the job is complete."""
        job = self._job
        try:
            await _result(job.on_start() if self.state.executions == 1 else job.on_resume())
        except _Abort as abort:
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
        except _Abort as abort:
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
            if hasattr(around, "__aenter__") and isinstance(self._mode, _OnLoop):
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
        if not self._keeps or self._runtime is None:
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
        """Repeat until Redis answers: what is done meanwhile could not be saved.

        A worker that stops ends this wait as it ends all running jobs.
        """
        told = False
        while True:
            try:
                return await self._mode.redis(call)
            except RedisUnavailable as error:
                if not told:
                    logger.warning("the iteration waits for Redis: %s", error)
                told = True
            await self._mode.pause(RETRY_S)

    async def _save_after(self, error: BaseException) -> None:
        """Save the progress before an error is passed on (Sidekiq 8.0.4 and later)."""
        if job_forks.in_child:
            job_forks.end(error)
        try:
            await self._redis(self.state.flush)
        except KiqbridgeError as second:
            logger.warning(
                "after %s the progress could not be saved, the next try begins at an earlier item: %s",
                type(error).__name__,
                second,
            )

    def _was_given_back(self, error: BaseException) -> bool:
        """Whether the worker's end cut it off: then another may have the job, and write its progress."""
        if isinstance(error, Shutdown):
            return True
        stopping = self._runtime is not None and self._runtime.is_stopping()
        return stopping and not isinstance(error, Exception)


def _state_of(job: IterableJob, runtime: Runtime | None) -> IterationState | _InMemory:
    context = CONTEXT.get()
    if runtime is None or context is None:
        return _InMemory()
    jid = context[0].get("jid")
    if not isinstance(jid, str) or not jid:
        logger.warning("a job without a jid has no place for its progress: it is not interrupted")
        return _InMemory()
    # Another jid: performed inline, by the job whose payload this is.
    return IterationState(runtime, jid) if jid == job.jid else _InMemory()


def _check_declaration(cls: type[IterableJob], *, abstract: bool) -> None:
    own = inspect.getattr_static(cls, "perform", None)
    if own is not None and not getattr(own, _OURS, False):
        raise ConfigError(
            f"{cls.__qualname__}: defines perform, which an iterable job must not (protocol §13.4); "
            "process one item in each_iteration"
        )
    if abstract:
        return
    for name in ("build_enumerator", "each_iteration"):
        if getattr(cls, name) is getattr(IterableJob, name):
            raise ConfigError(
                f"{cls.__qualname__}: defines no {name}, which an iterable job must; a base class for "
                "others is declared with abstract=True"
            )


def _perform_of(cls: type[IterableJob]) -> Callable[..., Any]:
    """What the worker calls, with the signature that callers have to keep."""
    if inspect.iscoroutinefunction(cls.each_iteration):

        async def perform(self: IterableJob, *args: Any) -> None:
            self._kiqbridge_run = _Run(self, args, _OnLoop())
            await self._kiqbridge_run.run()
    else:

        def perform(self: IterableJob, *args: Any) -> None:  # type: ignore[misc] # the other variant
            self._kiqbridge_run = _Run(self, args, _OnThread())
            _finish(self._kiqbridge_run.run())

    setattr(perform, _OURS, True)
    setattr(perform, "__signature__", _signature(cls))  # noqa: B010 - mypy: functions declare none
    return perform


def _signature(cls: type[IterableJob]) -> inspect.Signature:
    """That of `build_enumerator` without `cursor`, checked against both methods."""
    signature = inspect.signature(cls.build_enumerator)
    parameters = list(signature.parameters.values())
    cursor = signature.parameters.get("cursor")
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    rest = [
        each for each in parameters if each.name != "cursor" and each.kind is not each.VAR_KEYWORD
    ]
    behind = parameters[parameters.index(cursor) + 1 :] if cursor else []
    if (cursor is None and not takes_any) or (
        cursor is not None
        and (
            cursor.kind in (cursor.POSITIONAL_ONLY, cursor.VAR_POSITIONAL)
            or any(each.kind in _POSITIONS for each in behind)
        )
    ):
        raise ConfigError(
            f"{cls.__qualname__}: build_enumerator{signature} cannot be called with cursor=…; put `*, "
            "cursor` behind its other parameters"
        )
    positions = [each for each in rest[1:] if each.kind in _POSITIONS]
    if not any(each.kind is each.VAR_POSITIONAL for each in positions):
        try:
            inspect.signature(cls.each_iteration).bind(None, None, *positions)
        except TypeError as error:
            raise ConfigError(
                f"{cls.__qualname__}: each_iteration cannot be called with an item and the "
                f"{len(positions)} arguments of build_enumerator: {error}"
            ) from error
    return signature.replace(parameters=rest, return_annotation=None)


_POSITIONS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def _finish(steps: Coroutine[Any, Any, None]) -> None:
    """Run steps that never suspend to their end, without an event loop."""
    try:
        steps.send(None)
    except StopIteration:
        return
    steps.close()
    raise TypeError(
        "something asynchronous was awaited by an iterable job whose each_iteration is plain; make "
        "each_iteration `async def`"
    )


async def _result(value: Any) -> Any:
    """The value itself, or what it stands for if it is to be awaited."""
    return await value if isinstance(value, Awaitable) else value


def _check_enumerator(job: IterableJob, pairs: Any, *, is_async: bool) -> None:
    name = f"build_enumerator of {type(job).__qualname__}"
    if isinstance(pairs, AsyncIterator) and not is_async:
        raise TypeError(f"{name}: an asynchronous enumerator needs `async def each_iteration`")
    if isinstance(pairs, enumerate):
        raise TypeError(
            f"{name}: enumerate gives (index, item), but (item, cursor) is needed; use "
            "enumerators.sequence"
        )
    if not isinstance(pairs, Iterator | AsyncIterator):
        raise TypeError(
            f"{name}: {shorten(pairs)} is no iterator of (item, cursor) pairs; see "
            "kiqbridge.enumerators, or yield the pairs"
        )


async def _close(pairs: Any) -> None:
    """End a generator now, so that the files it has opened are closed."""
    close = getattr(pairs, "aclose", None) or getattr(pairs, "close", None)
    if close is not None:
        await _result(close())
