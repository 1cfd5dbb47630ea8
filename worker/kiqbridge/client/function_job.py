"""A function that is declared as a job: what `@job` makes of it."""

import functools
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, Unpack, overload

from kiqbridge.client.job_pusher import JobPusher, Setter, as_list, naming_our_calls
from kiqbridge.client.off_loop import off_loop
from kiqbridge.client.registry import MARK, JobDefinition
from kiqbridge.client.signatures import BulkOptions, EnqueuesRow, JobCall, P, R, Ts
from kiqbridge.wire.options import PushOptions


@naming_our_calls
class FunctionJob(Generic[P, R]):
    """A function declared with `@job`: still callable, and it can be enqueued.

    The methods that begin with an `a` are for `async` code: they do the same on a thread, so that the event
    loop goes on (`off_loop`).
    """

    def __init__(self, function: Callable[P, R], definition: JobDefinition) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        setattr(self, MARK, definition)
        self._definition = definition
        self._pusher = JobPusher(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self._definition.name}>"

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue now; returns the jid, or None when middleware stopped it. Raises as `Client.push`."""
        return self._pusher.perform_async(*args, **kwargs)

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue in so many seconds, or after a timedelta (§5.6); zero and negative mean now.

        Else as `perform_async`.
        """
        return self._pusher.perform_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time: epoch seconds or aware datetime. Else as `perform_async`."""
        return self._pusher.perform_at(when, *args, **kwargs)

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> JobCall[P]:
        """The arguments of one job, checked, as an element for `perform_bulk`.

        Raises:
            PayloadError: the job cannot be called like this.
        """
        return JobCall(*self._pusher.named_arguments(*args, **kwargs))

    @overload
    def perform_bulk(
        self,
        args: Iterable[JobCall[P]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    @overload
    def perform_bulk(
        self: EnqueuesRow[*Ts],
        args: Iterable[tuple[*Ts]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    @overload
    def perform_bulk(
        self,
        args: Iterable[list[Any]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    def perform_bulk(
        self,
        args: Iterable[Any],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`.

        Args:
            args: tuples and `with_args(…)` are checked by type checkers, lists are not. A tuple holds a value
                for each parameter: to leave one at its default use `with_args`.
            options: `batch_size`, `at` and `spread_interval`, see `BulkOptions`.
        """
        return self._pusher.perform_bulk(args, **options)

    def perform_inline(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run here and now as a worker would, without Redis and retries; see `inline.perform`.

        Returns what the job returned, or None when middleware stopped it; an error of the job is raised.
        """
        return self._pusher.perform_inline(*args, **kwargs)

    def set(self, **options: Unpack[PushOptions]) -> Setter[P]:
        """The same job with other options for the next push, such as `queue` or `wait` (seconds).

        Attributes of your own go into `attributes={…}`.

        Raises:
            PayloadError: there is no such option; the message suggests one.
        """
        return Setter(self, options)

    async def aperform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As `perform_async`, without blocking the event loop."""
        return await off_loop(self.perform_async, *args, **kwargs)

    async def aperform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """As `perform_in`, without blocking the event loop."""
        return await off_loop(self.perform_in, seconds, *args, **kwargs)

    async def aperform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """As `perform_at`, without blocking the event loop."""
        return await off_loop(self.perform_at, when, *args, **kwargs)

    @overload
    async def aperform_bulk(
        self,
        args: Iterable[JobCall[P]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    @overload
    async def aperform_bulk(
        self: EnqueuesRow[*Ts],
        args: Iterable[tuple[*Ts]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    @overload
    async def aperform_bulk(
        self,
        args: Iterable[list[Any]],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]: ...
    async def aperform_bulk(
        self,
        args: Iterable[Any],
        **options: Unpack[BulkOptions],
    ) -> list[str | None]:
        """As `perform_bulk`, without blocking the event loop."""
        return await off_loop(self._pusher.perform_bulk, as_list(args), **options)
