"""How a job written as a class is enqueued: its class methods, with the signature of its `perform`.

For type checkers each of them takes what `perform` takes, or `each_iteration` behind the item (`signatures`).
At run time all of them take anything, and the arguments are bound to the signature when they are enqueued.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Unpack, overload

from kiqbridge.client.job_pusher import JobPusher, Setter, as_list, naming_our_calls
from kiqbridge.client.off_loop import off_loop
from kiqbridge.client.signatures import (
    BulkOptions,
    HasIteration,
    HasPerform,
    IteratesRow,
    JobCall,
    P,
    PerformsRow,
    Ts,
)
from kiqbridge.wire.options import PushOptions


@naming_our_calls
class ClassCalls:
    """What `Job` and its subclasses can be asked for: to be enqueued, or run here and now.

    The methods that begin with an `a` are for `async` code: they do the same on a thread, so that the event
    loop goes on (`off_loop`).
    """

    @overload
    @classmethod
    def perform_async(
        cls: type[HasPerform[P]], *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    def perform_async(
        cls: type[HasIteration[P]], *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    def perform_async(cls, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue now; see `FunctionJob.perform_async`."""
        return JobPusher(cls).perform_async(*args, **kwargs)

    @overload
    @classmethod
    def perform_in(
        cls: type[HasPerform[P]], seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    def perform_in(
        cls: type[HasIteration[P]], seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    def perform_in(cls, seconds: float | timedelta, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return JobPusher(cls).perform_at(seconds, *args, **kwargs)

    @overload
    @classmethod
    def perform_at(
        cls: type[HasPerform[P]], when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    def perform_at(
        cls: type[HasIteration[P]], when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    def perform_at(cls, when: float | datetime, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return JobPusher(cls).perform_at(when, *args, **kwargs)

    @overload
    @classmethod
    def perform_inline(cls: type[HasPerform[P]], *args: P.args, **kwargs: P.kwargs) -> Any: ...

    @overload
    @classmethod
    def perform_inline(cls: type[HasIteration[P]], *args: P.args, **kwargs: P.kwargs) -> Any: ...

    @classmethod
    def perform_inline(cls, *args: Any, **kwargs: Any) -> Any:
        """Run here and now; see `FunctionJob.perform_inline`."""
        return JobPusher(cls).perform_inline(*args, **kwargs)

    @overload
    @classmethod
    def with_args(cls: type[HasPerform[P]], *args: P.args, **kwargs: P.kwargs) -> JobCall[P]: ...

    @overload
    @classmethod
    def with_args(cls: type[HasIteration[P]], *args: P.args, **kwargs: P.kwargs) -> JobCall[P]: ...

    @classmethod
    def with_args(cls, *args: Any, **kwargs: Any) -> JobCall[...]:
        """The arguments of one job for `perform_bulk`; see `FunctionJob.with_args`."""
        return JobCall(*JobPusher(cls).named_arguments(*args, **kwargs))

    @overload
    @classmethod
    def set(cls: type[HasPerform[P]], **options: Unpack[PushOptions]) -> Setter[P]: ...

    @overload
    @classmethod
    def set(cls: type[HasIteration[P]], **options: Unpack[PushOptions]) -> Setter[P]: ...

    @classmethod
    def set(cls, **options: Unpack[PushOptions]) -> Setter[...]:
        """The same job with other options for the next push; see `FunctionJob.set`."""
        return Setter(cls, options)

    @overload
    @classmethod
    def perform_bulk(
        cls: type[HasPerform[P]], args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    def perform_bulk(
        cls: type[HasIteration[P]], args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    def perform_bulk(
        cls: type[PerformsRow[*Ts]], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    def perform_bulk(
        cls: type[IteratesRow[*Ts]], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    def perform_bulk(
        cls, args: Iterable[list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @classmethod
    def perform_bulk(cls, args: Iterable[Any], **options: Unpack[BulkOptions]) -> list[str | None]:
        """Enqueue one job per element of `args`; see `FunctionJob.perform_bulk`."""
        return JobPusher(cls).perform_bulk(args, **options)

    @overload
    @classmethod
    async def aperform_async(
        cls: type[HasPerform[P]], *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    async def aperform_async(
        cls: type[HasIteration[P]], *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    async def aperform_async(cls, *args: Any, **kwargs: Any) -> str | None:
        """As `perform_async`, without blocking the event loop."""
        return await off_loop(JobPusher(cls).perform_async, *args, **kwargs)

    @overload
    @classmethod
    async def aperform_in(
        cls: type[HasPerform[P]], seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    async def aperform_in(
        cls: type[HasIteration[P]], seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    async def aperform_in(
        cls, seconds: float | timedelta, /, *args: Any, **kwargs: Any
    ) -> str | None:
        """As `perform_in`, without blocking the event loop."""
        return await off_loop(JobPusher(cls).perform_at, seconds, *args, **kwargs)

    @overload
    @classmethod
    async def aperform_at(
        cls: type[HasPerform[P]], when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @overload
    @classmethod
    async def aperform_at(
        cls: type[HasIteration[P]], when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None: ...

    @classmethod
    async def aperform_at(cls, when: float | datetime, /, *args: Any, **kwargs: Any) -> str | None:
        """As `perform_at`, without blocking the event loop."""
        return await off_loop(JobPusher(cls).perform_at, when, *args, **kwargs)

    @overload
    @classmethod
    async def aperform_bulk(
        cls: type[HasPerform[P]], args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    async def aperform_bulk(
        cls: type[HasIteration[P]], args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    async def aperform_bulk(
        cls: type[PerformsRow[*Ts]], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    async def aperform_bulk(
        cls: type[IteratesRow[*Ts]], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @overload
    @classmethod
    async def aperform_bulk(
        cls, args: Iterable[list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...

    @classmethod
    async def aperform_bulk(
        cls, args: Iterable[Any], **options: Unpack[BulkOptions]
    ) -> list[str | None]:
        """As `perform_bulk`, without blocking the event loop."""
        return await off_loop(JobPusher(cls).perform_bulk, as_list(args), **options)
