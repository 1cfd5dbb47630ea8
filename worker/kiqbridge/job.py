"""Declaring jobs and enqueuing them: the API that users write against.

@job(queue="mailers", retry=5)
def send_invoice(invoice_id: int, copy: bool = False) -> None: ...

class NightlyReport(Job):
    class_name = "Reports::Nightly"
    queue = "low"
    def perform(self, day: str) -> None: ...

send_invoice.perform_async(42, copy=True)
NightlyReport.set(queue="high").perform_in(60, "2026-01-01")
"""

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast, overload

from kiqbridge.client import BATCH_SIZE, default_client
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.payload import check_json, run_time
from kiqbridge.registry import MARK, JobDefinition, check_signature, default_registry

P = ParamSpec("P")
R = TypeVar("R")

_CLASS_OPTIONS = (
    "retry",
    "queue",
    "backtrace",
    "dead",
    "tags",
    "retry_for",
    "retry_queue",
    "log_level",
)


class FunctionJob(Generic[P, R]):
    """A function declared with `@job`: still callable, and it can be enqueued."""

    def __init__(self, function: Callable[P, R], definition: JobDefinition) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        setattr(self, MARK, definition)
        self._definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self._definition.name}>"

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue now; returns the jid, or None when middleware stopped it. Raises as `Client.push`."""
        return _Enqueuer(self._definition).perform_async(*args, **kwargs)

    def perform_in(self, seconds: float, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue in so many seconds (§5.6); zero and negative mean now. Else as `perform_async`."""
        return _Enqueuer(self._definition).perform_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time: epoch seconds or aware datetime. Else as `perform_async`."""
        return _Enqueuer(self._definition).perform_at(when, *args, **kwargs)

    def perform_bulk(
        self,
        args: Sequence[Sequence[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`."""
        return _Enqueuer(self._definition).perform_bulk(
            args, batch_size=batch_size, at=at, spread_interval=spread_interval
        )

    def set(self, **options: Any) -> "Setter[P]":
        """The same job with other options for the next push, such as `queue` or `wait` (seconds)."""
        return Setter(self._definition, options)


class _Enqueuer:
    """Builds items for the default client out of calls."""

    def __init__(self, definition: JobDefinition, options: Mapping[str, Any] | None = None) -> None:
        self._definition = definition
        self._options = dict(options or {})

    def perform_async(self, *args: Any, **kwargs: Any) -> str | None:
        item = {**self._options, "args": self._definition.positional(args, kwargs), **self._class()}
        return default_client().push(item)

    def perform_at(self, when: float | datetime, *args: Any, **kwargs: Any) -> str | None:
        item = {**self._options, **self._class(), "args": self._definition.positional(args, kwargs)}
        at = run_time(when, time.time())
        return default_client().push(item if at is None else item | {"at": at})

    def perform_bulk(self, args: Sequence[Sequence[Any]], **options: Any) -> list[str | None]:
        lists = [list(element) for element in args]
        given = {name: value for name, value in options.items() if value is not None}
        return default_client().push_bulk(
            {**self._options, **self._class(), "args": lists, **given}
        )

    def _class(self) -> dict[str, Any]:
        return {"class": _Declared(self._definition)}


class _Declared:
    """Stands for a declared job in an item."""

    def __init__(self, definition: JobDefinition) -> None:
        setattr(self, MARK, definition)


class Setter(Generic[P]):
    """A job with options for one push, made by `set`."""

    def __init__(self, definition: JobDefinition, options: Mapping[str, Any]) -> None:
        chosen = dict(options)
        waits = [chosen.pop(name) for name in ("wait", "wait_until") if name in chosen]
        if len(waits) > 1:
            raise PayloadError("set: give wait (seconds) or wait_until (a time), not both")
        self._when: float | datetime | None = waits[0] if waits else None
        self._definition = definition
        self._options = chosen
        self._enqueuer = _Enqueuer(definition, chosen)

    def set(self, **options: Any) -> "Setter[P]":
        """Further options over these."""
        waiting = {} if self._when is None else {"wait_until": self._when}
        return Setter(self._definition, {**self._options, **waiting, **options})

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue with these options; see `FunctionJob.perform_async`."""
        if self._when is not None:
            return self._enqueuer.perform_at(self._when, *args, **kwargs)
        return self._enqueuer.perform_async(*args, **kwargs)

    def perform_in(self, seconds: float, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return self._enqueuer.perform_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return self._enqueuer.perform_at(when, *args, **kwargs)

    def perform_bulk(
        self,
        args: Sequence[Sequence[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`."""
        return self._enqueuer.perform_bulk(
            args, batch_size=batch_size, at=at, spread_interval=spread_interval
        )


@overload
def job(function: Callable[P, R], /) -> FunctionJob[P, R]: ...
@overload
def job(
    *, name: str | None = None, queue: str = "default", retry: bool | int = True, **options: Any
) -> Callable[[Callable[P, R]], FunctionJob[P, R]]: ...
def job(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    retry: bool | int = True,
    **options: Any,
) -> FunctionJob[P, R] | Callable[[Callable[P, R]], FunctionJob[P, R]]:
    """Declare a function, plain or async, as a job; it stays callable and keeps its signature.

    Args:
        function: the function when used without parentheses.
        name: wire name, default the function's `__name__`; a Ruby constant path is fine.
        queue: queue name without prefix.
        retry: True = 25 retries, N = at most N, 0 = straight to dead, False = dropped.
        options: Sidekiq's other options (§3.2): backtrace, dead, tags, retry_for, retry_queue, …

    Raises:
        ConfigError: the name is taken, an option has no JSON text, or a keyword-only parameter has
            no default.
    """

    def declare(function: Callable[P, R]) -> FunctionJob[P, R]:
        wire_name = name or function.__name__
        definition = _define(
            wire_name,
            {"retry": retry, "queue": queue, **options},
            function,
            instantiate=lambda _jid: declared,
            perform_of=lambda _instance: function,
            signature=inspect.signature(function),
        )
        declared = FunctionJob(function, definition)
        default_registry.register(definition)
        return declared

    return declare if function is None else declare(function)


class Job:
    """Base of jobs written as classes: set the attributes, define `perform`.

    A subclass with a `perform` is registered when it is defined; one without is a base for others.

    Attributes:
        class_name: wire name, default the class' `__name__`.
        queue, retry, backtrace, dead, tags, retry_for, retry_queue, log_level: wire options (§3.2).
        sidekiq_options: any further wire options.
        jid: the job's id while it runs.
    """

    class_name: ClassVar[str]
    queue: ClassVar[str] = "default"
    retry: ClassVar[bool | int] = True
    sidekiq_options: ClassVar[Mapping[str, Any]] = {}
    jid: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        perform = getattr(cls, "perform", None)
        if perform is None:
            return
        options = {name: getattr(cls, name) for name in _CLASS_OPTIONS if hasattr(cls, name)}
        signature = inspect.signature(perform)
        parameters = list(signature.parameters.values())
        definition = _define(
            cls.__dict__.get("class_name", cls.__name__),
            {**options, **cls.sidekiq_options},
            cls,
            instantiate=functools.partial(_instantiate, cls),
            perform_of=lambda instance: cast("Callable[..., Any]", instance.perform),
            signature=signature.replace(parameters=parameters[1:]),
        )
        setattr(cls, MARK, definition)
        default_registry.register(definition)

    @classmethod
    def perform_async(cls, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue now; see `FunctionJob.perform_async`."""
        return _Enqueuer(_declared(cls)).perform_async(*args, **kwargs)

    @classmethod
    def perform_in(cls, seconds: float, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return _Enqueuer(_declared(cls)).perform_at(seconds, *args, **kwargs)

    @classmethod
    def perform_at(cls, when: float | datetime, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return _Enqueuer(_declared(cls)).perform_at(when, *args, **kwargs)

    @classmethod
    def perform_bulk(
        cls,
        args: Sequence[Sequence[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`."""
        return _Enqueuer(_declared(cls)).perform_bulk(
            args, batch_size=batch_size, at=at, spread_interval=spread_interval
        )

    @classmethod
    def set(cls, **options: Any) -> Setter[...]:
        """The same job with other options for the next push; see `FunctionJob.set`."""
        return Setter(_declared(cls), options)


def _define(
    name: str,
    options: Mapping[str, Any],
    declared: Any,
    *,
    instantiate: Callable[[str], Any],
    perform_of: Callable[[Any], Callable[..., Any]],
    signature: inspect.Signature,
) -> JobDefinition:
    check_signature(name, signature)
    if not isinstance(options.get("queue"), str) or not options["queue"]:
        raise ConfigError(f"job {name!r}: queue {options.get('queue')!r} is not a queue name")
    try:
        for option, value in options.items():
            check_json(value, option)
    except PayloadError as error:
        raise ConfigError(f"job {name!r}: option {error}") from error
    return JobDefinition(
        name=name,
        options=dict(options),
        instantiate=instantiate,
        perform_of=perform_of,
        signature=signature,
        origin=f"{declared.__module__}.{declared.__qualname__}",
    )


def _instantiate(declared: type[Job], jid: str) -> Job:
    instance = declared()
    instance.jid = jid
    return instance


def _declared(cls: type[Job]) -> JobDefinition:
    definition = cls.__dict__.get(MARK)
    if not isinstance(definition, JobDefinition):
        raise ConfigError(
            f"{cls.__qualname__} defines no perform, so it is no job; define perform in it"
        )
    return definition
