"""Calling a job within its middleware: on a thread, on an event loop, or where a pool of a feature runs it.

1. Where does it run? One whose `pool` is that of a feature goes there, and the thread waits for it.
2. Make its instance, and take its arguments out of the payload, which middleware may have changed.
3. Call it within the middleware, for at most its `timeout_s`, and wait for what it returns.
4. A process that the job has forked ends here, before middleware goes on.
"""

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Protocol

from kiqbridge.client.middleware import Chain, ServerMiddleware
from kiqbridge.client.registry import JobDefinition
from kiqbridge.client.sealing import arguments_in
from kiqbridge.engine.perform.execution import Execution, NotBegun, Performing
from kiqbridge.errors import JobTimeout, Shutdown
from kiqbridge.runtime import frames, job_forks
from kiqbridge.runtime.interruption import PENDING, Timekeeper, limited, settle
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.threads import NoThread

if TYPE_CHECKING:
    from concurrent.futures import Executor


class PerformsJob(Protocol):
    """What performs a job elsewhere and waits for its end: `JobPool.perform_job` for one capsule."""

    def __call__(self, definition: JobDefinition, execution: Execution, thread: Performing) -> None:
        """Raises as `Invoker.invoke`; what the job returned is in the execution."""


class LoopThread(Protocol):
    """An event loop on a thread of its own.

    Attributes:
        executor: lends threads to plain middleware.
    """

    @property
    def executor(self) -> "Executor": ...  # noqa: D102 - see above

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for its end on another thread, and return its result; raises what it raised."""


@dataclass(slots=True, eq=False)
class Invoker:
    """Calls jobs within the middleware of a capsule.

    Attributes:
        middleware: around each job.
        timekeeper: enforces `timeout_s`; None where somebody else does, as a worker for its children.
        pools: kind of pool → what performs such jobs, where they do not run here.
        loop: gives the event loop where `async def` jobs run; None = each thread has one of its own.
    """

    middleware: Chain[ServerMiddleware]
    _: KW_ONLY
    timekeeper: Timekeeper | None = None
    pools: Mapping[str, PerformsJob] = field(default_factory=dict)
    loop: Callable[[], LoopThread] | None = None
    _loops: threading.local = field(init=False, default_factory=threading.local)

    @frames.may_take_long
    def invoke(  # noqa: C901 - each further call is made for each job
        self, definition: JobDefinition, execution: Execution, thread: Performing
    ) -> None:
        """Call a job on this thread, and wait for its end.

        Raises:
            JobTimeout: it took longer than its `timeout_s`.
            PayloadError: its `args` are no list.
            ArgumentMismatch: an argument does not fit its annotation.
            NotBegun: there is no thread for its middleware or its event loop.
            BaseException: what it raised.
        """
        handling = definition.handling
        if handling.pool in self.pools:
            self.pools[handling.pool](definition, execution, thread)
            return
        payload = execution.payload
        try:
            instance = definition.instantiate(str(payload.get("jid")))
        except BaseException:
            execution.definition = None  # as for an unknown class, its rules do not count (§7.4)
            raise
        perform = definition.perform_of(instance)
        timeout_s = handling.timeout_s

        def call() -> Any:
            args = arguments_in(payload, definition)
            thread.performing = True
            try:
                if timeout_s is not None and self.timekeeper is not None:
                    with self.timekeeper.limit(timeout_s):
                        result = self._finish(perform(*args))
                else:
                    result = perform(*args)
                    # Nearly all give nothing back, and each call here is made for each job.
                    if result is not None:
                        result = self._finish(result)
                execution.result = result
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

        if self.loop is not None and inspect.iscoroutinefunction(perform):
            try:
                loop = self.loop()
            except NoThread as error:
                raise _not_begun("its event loop", error) from error
            loop.run(self._awaited(perform, instance, definition, execution, loop.executor))
        elif len(self.middleware):
            within = self._bridged if self.middleware.is_partly_async else self.middleware.invoke
            within((instance, payload, execution.queue), call)
        else:
            call()

    @frames.may_take_long
    def _bridged(self, args: tuple[Any, ...], call: Callable[[], Any]) -> None:
        has_begun = False

        def begin() -> Any:
            nonlocal has_begun
            has_begun = True
            return call()

        try:
            self.middleware.invoke(args, begin)
        except NoThread as error:
            if has_begun:
                raise
            raise _not_begun("its middleware", error) from error

    def invoke_async(
        self, definition: JobDefinition, execution: Execution, executor: "Executor"
    ) -> Awaitable[Any]:
        """Call an `async def` job on this thread's event loop; await it at once.

        Raises:
            JobTimeout: it took longer than its `timeout_s`.
            PayloadError: its `args` are no list.
            ArgumentMismatch: an argument does not fit its annotation.
            NotBegun: there is no thread for its middleware.
            BaseException: what it raised.
        """
        # No coroutine itself: each level is passed through again whenever a job goes on.
        try:
            instance = definition.instantiate(str(execution.payload.get("jid")))
        except BaseException:
            execution.definition = None  # as in `invoke`
            raise
        perform = definition.perform_of(instance)
        if (
            definition.handling.timeout_s is None
            and not len(self.middleware)
            and not execution.is_watched
        ):
            execution.result = None  # its result is not kept
            coroutine: Awaitable[Any] = perform(*arguments_in(execution.payload, definition))
            return coroutine
        return self._awaited(perform, instance, definition, execution, executor)

    @frames.may_take_long
    async def _awaited(
        self,
        perform: Callable[..., Coroutine[Any, Any, Any]],
        instance: Any,
        definition: JobDefinition,
        execution: Execution,
        executor: "Executor",
    ) -> None:
        """A job within its middleware."""
        payload = execution.payload
        timeout_s = definition.handling.timeout_s if self.timekeeper is not None else None

        has_begun = False

        async def call() -> Any:
            nonlocal has_begun
            has_begun = True
            running = _ending_forks(perform(*arguments_in(payload, definition)))
            execution.result = await limited(running, timeout_s)
            return execution.result

        if not len(self.middleware):
            await call()
            return
        try:
            await self.middleware.invoke_async((instance, payload, execution.queue), call, executor)
        except NoThread as error:
            if has_begun:
                raise
            raise _not_begun("its middleware", error) from error

    @frames.may_take_long
    def _finish(self, result: Any) -> Any:
        """Wait for a plain function's coroutine; `async def` jobs run on the capsule's loop."""
        if not inspect.iscoroutine(result):
            return result
        if self.loop is not None:
            return self.loop().run(result)
        loop = getattr(self._loops, "runner", None)
        if loop is None:
            import asyncio  # noqa: PLC0415 - for a plain function that gives back a coroutine

            loop = self._loops.runner = asyncio.Runner()
        try:
            # The loop would run everything in the context of its first job, and log it under that jid.
            return loop.run(result, context=contextvars.copy_context())
        except (JobTimeout, Shutdown):
            # It may have left the loop from outside; its tasks must not go on with the next job's.
            self._loops.runner = None
            loop.close()
            raise


def _not_begun(what: str, error: NoThread) -> NotBegun:
    return NotBegun(f"{what} needs a thread, and none can be started ({error})")


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
