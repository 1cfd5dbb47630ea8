"""Enqueuing calls of a declared job: what `@job` makes of a function, and what `set` makes of any job.

`send_invoice.set(queue="high").perform_in(60, 42)` becomes `client.push({"queue": "high", "args": [42], "class":
send_invoice, "at": …})` on the default client.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import (
    Any,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from kiqbridge.client.declaration import require_definition
from kiqbridge.client.default_client import default_client
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.client.off_loop import off_loop
from kiqbridge.client.registry import MARK, JobDefinition
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.clock import client_now
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.options import FLOW_OPTIONS, PushOptions, unknown_pushed, with_attributes
from kiqbridge.wire.payload import run_time

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_OTHER_CALLS: Final[Mapping[str, str]] = {
    "delay": "perform_async(…)",
    "send": "perform_async(…)",
    "enqueue": "perform_async(…)",
    "perform_later": "perform_async(…)",
    "kiq": "perform_async(…), or await aperform_async(…)",
    "apply_async": "perform_async(…), with options set(queue=…, wait=…).perform_async(…)",
    "send_with_options": "set(queue=…, wait=…).perform_async(…)",
    "perform_now": "perform_inline(…)",
    "apply": "perform_inline(…)",
}
"""How other libraries enqueue a job, and what it is here."""


class _OtherCall:
    """An attribute that is not there, and says what is."""

    def __init__(self, name: str, ours: str) -> None:
        self._message = f"a job has no {name}; what you look for is {ours} (docs/migrate)"

    def __get__(self, _instance: object, _owner: type) -> NoReturn:
        raise AttributeError(self._message)


def naming_our_calls(kind: type[T]) -> type[T]:
    """A class of what can be enqueued, whose missing methods of other libraries name ours."""
    for name, ours in _OTHER_CALLS.items():
        setattr(kind, name, _OtherCall(name, ours))  # unknown to type checkers, as before
    return kind


class BulkOptions(TypedDict, total=False):
    """What `perform_bulk` takes besides the arguments."""

    batch_size: int
    """How many jobs one round trip carries; default 1,000."""
    at: float | list[float] | None
    """When they run, epoch seconds: one time, or one for each."""
    spread_interval: float | None
    """Each job gets a random time within so many seconds."""


class JobCall(Generic[P]):
    """The arguments of one job of a `perform_bulk`, made and checked by `with_args` of the job.

    Attributes:
        job: name of the job that they are for.
        args: as they go on the wire.
    """

    __slots__ = ("args", "job")

    def __init__(self, job: str, args: list[Any]) -> None:
        self.job = job
        self.args = args

    def __repr__(self) -> str:
        return f"<arguments of {self.job}>"


class EnqueuesRow(Protocol[*Ts]):
    """A job that is enqueued with these positional arguments."""

    def perform_async(self, *args: *Ts) -> Any:
        """Enqueue now."""


@naming_our_calls
class JobPusher(Generic[P]):
    """Pushes calls of one job through the default client; the keys of its items stand in Ruby's order (§3.4).

    The methods that begin with an `a` are for `async` code: they do the same, and the event loop goes on
    (`Client.apush`, `off_loop`).

    Args:
        declared: the function or class.
        options: of `set`, as they go on the wire; None: without `set`.
        when: of `set`, in the place of now.
    """

    def __init__(
        self,
        declared: object,
        options: Mapping[str, Any] | None = None,
        when: float | datetime | timedelta | None = None,
    ) -> None:
        self._definition = require_definition(declared)
        self._class = {"class": declared}
        self._is_set = options is not None
        self._options = options or {}
        self._when = when

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle | None:
        """Enqueue now; returns the jid, or None when middleware stopped it. Returns and raises as `Client.push`."""
        if self._when is not None:
            return self._push_at(self._when, args, kwargs)
        return default_client().push(self._item(args, kwargs))

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue in so many seconds, or after a timedelta (§5.6); zero and negative mean now.

        Else as `perform_async`.
        """
        return self._push_at(seconds, args, kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue for a time: epoch seconds or aware datetime. Else as `perform_async`."""
        return self._push_at(when, args, kwargs)

    def perform_inline(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run here and now as a worker would, without Redis and retries; see `inline.perform`.

        Returns what the job returned, or None when middleware stopped it; an error of the job is raised.
        """
        from kiqbridge.client import inline  # noqa: PLC0415 - few run jobs inline

        return inline.perform(default_client(), self._item(args, kwargs))

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> JobCall[P]:
        """The arguments of one job, checked, as an element for `perform_bulk`.

        Raises:
            PayloadError: the job cannot be called like this.
        """
        return JobCall(self._definition.name, self._definition.positional(args, kwargs))

    def set(self, **options: Unpack[PushOptions]) -> "Setter[P]":
        """The job with other options for the next push, such as `queue` or `wait` (seconds).

        Attributes of your own go into `attributes={…}`.

        Raises:
            PayloadError: there is no such option; the message suggests one.
        """
        return Setter(self._class["class"], options)

    @overload
    def perform_bulk(
        self, args: Iterable[JobCall[P] | list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    def perform_bulk(
        self: EnqueuesRow[*Ts], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    def perform_bulk(
        self,
        args: Iterable[Any],
        *,
        batch_size: int | None = None,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`.

        Args:
            args: tuples and `with_args(…)` are checked by type checkers, lists are not. A tuple holds a value
                for each parameter: to leave one at its default use `with_args`.
            batch_size, at, spread_interval: see `BulkOptions`; None counts as not given.
        """
        if not isinstance(args, Iterable) or isinstance(args, str | bytes | Mapping):
            raise PayloadError(
                f"args: {shorten(args)} is not a list of lists, one list of arguments per job"
            )
        lists = [self._argument_list(element) for element in args]
        options = {"batch_size": batch_size, "at": at, "spread_interval": spread_interval}
        given = {name: value for name, value in options.items() if value is not None}
        return default_client().push_bulk({**self._options, **self._class, "args": lists, **given})

    async def aperform_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle | None:
        """Enqueue the job now, without blocking the event loop. Takes, returns and raises what `perform_async` does."""
        if self._when is not None:
            return await off_loop(self.perform_async, *args, **kwargs)
        return await default_client().apush(self._item(args, kwargs))

    async def aperform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue the job for a later time, without blocking the event loop. Takes, returns and raises what `perform_in` does."""
        return await off_loop(self.perform_in, seconds, *args, **kwargs)

    async def aperform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue the job for a given time, without blocking the event loop. Takes, returns and raises what `perform_at` does."""
        return await off_loop(self.perform_at, when, *args, **kwargs)

    @overload
    async def aperform_bulk(
        self, args: Iterable[JobCall[P] | list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    async def aperform_bulk(
        self: EnqueuesRow[*Ts], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    async def aperform_bulk(
        self, args: Iterable[Any], **options: Unpack[BulkOptions]
    ) -> list[str | None]:
        """Enqueue many jobs, without blocking the event loop. Takes, returns and raises what `perform_bulk` does."""
        if isinstance(args, Iterator):  # what a generator does belongs on the thread of its caller
            args = list(args)
        push: Callable[..., list[str | None]] = self.perform_bulk
        return await off_loop(push, args, **options)

    def _argument_list(self, element: object) -> Any:
        """One job's arguments; what is no list is left for the client to refuse."""
        if isinstance(element, JobCall):
            if element.job != self._definition.name:
                raise PayloadError(
                    f"args: {element} are not those of {self._definition.name}; make them with its own with_args"
                )
            return element.args
        if not isinstance(element, list | tuple):
            return element
        return self._definition.positional(tuple(element), {})

    def _item(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._definition.positional(args, kwargs)
        return {**self._options, "args": arguments, **self._class}

    def _push_at(
        self, when: float | datetime | timedelta, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> JobHandle | None:
        item = self._item(args, kwargs)
        if not self._is_set:
            item = {**self._class, **item}
        if isinstance(when, str):
            raise PayloadError(
                f"at: {shorten(when)} is a text; give seconds such as 300, or timedelta(minutes=5), and for a point in "
                "time an aware datetime or epoch seconds"
            )
        at = run_time(when, client_now())
        return default_client().push(item if at is None else item | {"at": at})


class FunctionJob(JobPusher[P], Generic[P, R]):
    """A function declared with `@job`: still callable, and it can be enqueued."""

    def __init__(self, function: Callable[P, R], definition: JobDefinition) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        setattr(self, MARK, definition)
        super().__init__(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self._definition.name}>"


class Setter(JobPusher[P]):
    """A job with options for one push, made by `set`.

    Raises:
        PayloadError: there is no such option, or its value cannot be used.
    """

    def __init__(self, declared: object, options: Mapping[str, Any]) -> None:
        chosen = dict(options)
        waits = [chosen.pop(name) for name in ("wait", "wait_until") if name in chosen]
        fault = unknown_pushed(options)
        if fault is None and len(waits) > 1:
            fault = "give wait (seconds) or wait_until (a time), not both"
        if fault is not None:
            raise PayloadError(f"set: {fault}")
        try:
            if rules := {name: options[name] for name in options if name in FLOW_OPTIONS}:
                from kiqbridge.wire.rules import rule_among  # noqa: PLC0415 - few jobs have one

                rule_among(rules)  # refused before it is used
            on_wire = with_attributes(chosen)
        except (ConfigError, PayloadError) as error:
            raise PayloadError(f"set: {error}") from error
        super().__init__(declared, on_wire, waits[0] if waits else None)
        self._chosen = chosen

    def set(self, **options: Unpack[PushOptions]) -> "Setter[P]":
        """Further options over these; raises as `FunctionJob.set`."""
        chosen: dict[str, Any] = {**self._chosen, **options}
        if self._when is not None and not options.keys() & {"wait", "wait_until"}:
            chosen["wait_until"] = self._when
        return Setter(self._class["class"], chosen)
