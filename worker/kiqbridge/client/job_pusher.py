"""From a call of a declared job to an item for the default client: what `perform_async` and its like do.

`send_invoice.set(queue="high").perform_in(60, 42)` becomes `client.push({"queue": "high", "args": [42], "class":
send_invoice, "at": …})`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Generic, NoReturn, TypeVar, Unpack, overload

from kiqbridge.client.declaration import require_definition
from kiqbridge.client.default_client import default_client
from kiqbridge.client.off_loop import off_loop
from kiqbridge.client.signatures import BulkOptions, EnqueuesRow, JobCall, P, Ts
from kiqbridge.clock import client_now
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.options import (
    ATTRIBUTES,
    FLOW_OPTIONS,
    PushOptions,
    unknown_pushed,
    with_attributes,
)
from kiqbridge.wire.payload import run_time, shorten

T = TypeVar("T")

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


class JobPusher:
    """Pushes calls of one job through the default client; the keys of its items stand in Ruby's order (§3.4)."""

    def __init__(self, declared: object, options: Mapping[str, Any] | None = None) -> None:
        self._definition = require_definition(declared)
        self._class = {"class": declared}
        self._options = dict(options or {})

    def perform_async(self, *args: Any, **kwargs: Any) -> str | None:
        """As called on the job itself, or after `set`."""
        return default_client().push(self._args_first(args, kwargs))

    def perform_inline(self, *args: Any, **kwargs: Any) -> Any:
        """As `perform_async`."""
        from kiqbridge.client import inline  # noqa: PLC0415 - few run jobs inline

        return inline.perform(default_client(), self._args_first(args, kwargs))

    def perform_at(
        self, when: float | datetime | timedelta, *args: Any, **kwargs: Any
    ) -> str | None:
        """As called on the class itself."""
        arguments = self._definition.positional(args, kwargs)
        return self._push_at(when, {**self._options, **self._class, "args": arguments})

    def perform_set_at(
        self, when: float | datetime | timedelta, *args: Any, **kwargs: Any
    ) -> str | None:
        """As called after `set`, where Ruby writes the arguments first."""
        return self._push_at(when, self._args_first(args, kwargs))

    def named_arguments(self, *args: Any, **kwargs: Any) -> tuple[str, list[Any]]:
        """The job's name and its arguments as they go on the wire, for a `JobCall`."""
        return self._definition.name, self._definition.positional(args, kwargs)

    def perform_bulk(
        self,
        args: Iterable[Any],
        *,
        batch_size: int | None = None,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """As `perform_async`; options of None count as not given."""
        if not isinstance(args, Iterable) or isinstance(args, str | bytes | Mapping):
            raise PayloadError(
                f"args: {shorten(args)} is not a list of lists, one list of arguments per job"
            )
        lists = [self._argument_list(element) for element in args]
        options = {"batch_size": batch_size, "at": at, "spread_interval": spread_interval}
        given = {name: value for name, value in options.items() if value is not None}
        return default_client().push_bulk({**self._options, **self._class, "args": lists, **given})

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

    def _args_first(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._definition.positional(args, kwargs)
        return {**self._options, "args": arguments, **self._class}

    def _push_at(self, when: float | datetime | timedelta, item: dict[str, Any]) -> str | None:
        if isinstance(when, str):
            raise PayloadError(
                f"at: {shorten(when)} is a text; give seconds such as 300, or timedelta(minutes=5), and for a point in "
                "time an aware datetime or epoch seconds"
            )
        at = run_time(when, client_now())
        return default_client().push(item if at is None else item | {"at": at})


@naming_our_calls
class Setter(Generic[P]):
    """A job with options for one push, made by `set`.

    Raises:
        PayloadError: there is no such option, or its value cannot be used.
    """

    def __init__(self, declared: object, options: Mapping[str, Any]) -> None:
        unknown = unknown_pushed(options)
        if unknown is not None:
            raise PayloadError(f"set: {unknown}")
        if not isinstance(options.get(ATTRIBUTES, {}), Mapping):
            raise PayloadError(
                f"set: attributes: {shorten(options[ATTRIBUTES])} is not a dict of names and values"
            )
        if not FLOW_OPTIONS.isdisjoint(options):
            _check_rule(options)
        chosen = dict(options)
        waits = [chosen.pop(name) for name in ("wait", "wait_until") if name in chosen]
        if len(waits) > 1:
            raise PayloadError("set: give wait (seconds) or wait_until (a time), not both")
        self._when: float | datetime | timedelta | None = waits[0] if waits else None
        self._declared = declared
        self._options = chosen
        self._pusher = JobPusher(declared, with_attributes(chosen))

    def set(self, **options: Unpack[PushOptions]) -> "Setter[P]":
        """Further options over these; raises as `FunctionJob.set`."""
        chosen: dict[str, Any] = {**self._options, **options}
        if self._when is not None and not options.keys() & {"wait", "wait_until"}:
            chosen["wait_until"] = self._when
        return Setter(self._declared, chosen)

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue with these options; see `FunctionJob.perform_async`."""
        if self._when is not None:
            return self._pusher.perform_set_at(self._when, *args, **kwargs)
        return self._pusher.perform_async(*args, **kwargs)

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return self._pusher.perform_set_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return self._pusher.perform_set_at(when, *args, **kwargs)

    def perform_inline(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run here and now with these options; see `FunctionJob.perform_inline`."""
        return self._pusher.perform_inline(*args, **kwargs)

    def with_args(self, *args: P.args, **kwargs: P.kwargs) -> JobCall[P]:
        """The arguments of one job for `perform_bulk`; see `FunctionJob.with_args`."""
        return JobCall(*self._pusher.named_arguments(*args, **kwargs))

    @overload
    def perform_bulk(
        self, args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    def perform_bulk(
        self: EnqueuesRow[*Ts], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    def perform_bulk(
        self, args: Iterable[list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    def perform_bulk(self, args: Iterable[Any], **options: Unpack[BulkOptions]) -> list[str | None]:
        """Enqueue one job per element of `args`; see `FunctionJob.perform_bulk`."""
        return self._pusher.perform_bulk(args, **options)

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
        self, args: Iterable[JobCall[P]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    async def aperform_bulk(
        self: EnqueuesRow[*Ts], args: Iterable[tuple[*Ts]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    @overload
    async def aperform_bulk(
        self, args: Iterable[list[Any]], **options: Unpack[BulkOptions]
    ) -> list[str | None]: ...
    async def aperform_bulk(
        self, args: Iterable[Any], **options: Unpack[BulkOptions]
    ) -> list[str | None]:
        """As `perform_bulk`, without blocking the event loop."""
        return await off_loop(self._pusher.perform_bulk, as_list(args), **options)


def as_list(args: Iterable[Any]) -> Iterable[Any]:
    """What a generator yields, on the thread of its caller; anything else as it is."""
    return list(args) if isinstance(args, Iterator) else args


def _check_rule(options: Mapping[str, Any]) -> None:
    """Refuse a rule of flow control that is none, before it is used.

    Raises:
        PayloadError: it is none, or there are two.
    """
    from kiqbridge.client.unique import rule_among  # noqa: PLC0415 - few jobs have one

    try:
        rule_among(options)
    except ConfigError as error:
        raise PayloadError(f"set: {error}") from error
