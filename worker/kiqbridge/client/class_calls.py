"""How a job written as a class is enqueued: by the methods of `JobPusher`, called on the class.

For type checkers each of them takes what `perform` takes. An iterable job has that in `each_iteration`, behind the
item: it is the same list as that of `build_enumerator`, which has `cursor` besides, and only there a ParamSpec can be
cut at the right place. Both mypy and pyright find it by these protocols. At run time all of them take anything, and
the arguments are bound to the signature when they are enqueued.
"""

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from kiqbridge.client.declaration import require_definition
from kiqbridge.client.function_job import BulkOptions, JobCall, JobPusher, Setter, naming_our_calls
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.client.registry import definition_of
from kiqbridge.wire.options import PushOptions

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
D = TypeVar("D", bound=type)
D_co = TypeVar("D_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)
When_contra = TypeVar("When_contra", contravariant=True)


class HasPerform(Protocol[P]):
    """A job written as a class."""

    def perform(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What a worker calls."""


class HasIteration(Protocol[P]):
    """An iterable job."""

    def each_iteration(self, item: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What a worker calls for each item."""


class PerformsRow(Protocol[*Ts]):
    """A class whose `perform` can be called with these positional arguments."""

    def perform(self, *args: *Ts) -> Any:
        """What a worker calls."""


class IteratesRow(Protocol[*Ts]):
    """What the type checker sees of `perform_async` and its relatives of an iterable job."""

    def each_iteration(self, item: Any, /, *args: *Ts) -> Any:
        """What a worker calls for each item."""


Declared = type[HasPerform[P]] | type[HasIteration[P]]
DeclaredRow = type[PerformsRow[*Ts]] | type[IteratesRow[*Ts]]
Handle = JobHandle | None
Awaited = Coroutine[Any, Any, Handle]


class Sets(Protocol[P]):
    """A `set`."""

    def __call__(self, **options: Unpack[PushOptions]) -> Setter[P]:
        """The job with other options for the next push."""
        ...


class _Method:
    """A method of `JobPusher`, as an attribute of the class whose jobs it pushes."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = getattr(JobPusher, name).__doc__

    def _of(self, declared: type) -> Any:
        if definition_of(declared) is None:  # a base can be looked at, but not be enqueued
            return lambda *_args, **_kwargs: require_definition(declared)
        return getattr(JobPusher(declared), self._name)


class Enqueues(_Method, Generic[T_co]):
    """Takes the arguments of the job."""

    def __get__(self, _job: object, declared: Declared[P]) -> Callable[P, T_co]:
        method: Callable[P, T_co] = self._of(declared)
        return method


class EnqueuesLater(_Method, Generic[When_contra, T_co]):
    """Takes a time, and the arguments of the job."""

    def __get__(
        self, _job: object, declared: Declared[P]
    ) -> Callable[Concatenate[When_contra, P], T_co]:
        method: Callable[Concatenate[When_contra, P], T_co] = self._of(declared)
        return method


class _WithArgs(_Method):
    def __get__(self, _job: object, declared: Declared[P]) -> Callable[P, JobCall[P]]:
        method: Callable[P, JobCall[P]] = self._of(declared)
        return method


class _Set(_Method):
    def __get__(self, _job: object, declared: Declared[P]) -> Sets[P]:
        method: Sets[P] = self._of(declared)
        return method


class BulkCall(Generic[D_co, T_co]):
    """A `perform_bulk` of a class."""

    def __init__(self, call: Callable[..., T_co]) -> None:
        self._call = call

    @overload
    def __call__(
        self: "BulkCall[Declared[P], T_co]",
        args: Iterable[JobCall[P] | list[Any]],
        **options: Unpack[BulkOptions],
    ) -> T_co: ...
    @overload
    def __call__(
        self: "BulkCall[DeclaredRow[*Ts], T_co]",
        args: Iterable[tuple[*Ts]],
        **options: Unpack[BulkOptions],
    ) -> T_co: ...
    def __call__(self, args: Iterable[Any], **options: Unpack[BulkOptions]) -> T_co:
        """Enqueue one job per element of `args`; see `FunctionJob.perform_bulk`."""
        return self._call(args, **options)


class _Bulk(_Method, Generic[T_co]):
    def __get__(self, _job: object, declared: D) -> BulkCall[D, T_co]:
        return BulkCall(self._of(declared))


@naming_our_calls
class ClassCalls:
    """What `Job` and its subclasses can be asked for: to be enqueued, or run here and now; see `FunctionJob`."""

    perform_async = Enqueues[Handle]()
    perform_in = EnqueuesLater[float | timedelta, Handle]()
    perform_at = EnqueuesLater[float | datetime, Handle]()
    perform_inline = Enqueues[Any]()
    with_args = _WithArgs()
    set = _Set()
    aperform_async = Enqueues[Awaited]()
    aperform_in = EnqueuesLater[float | timedelta, Awaited]()
    aperform_at = EnqueuesLater[float | datetime, Awaited]()

    perform_bulk = _Bulk[list[str | None]]()
    aperform_bulk = _Bulk[Coroutine[Any, Any, list[str | None]]]()
