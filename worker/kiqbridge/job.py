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
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import (
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from kiqbridge import frames, inline
from kiqbridge.bulk import BATCH_SIZE
from kiqbridge.client import default_client
from kiqbridge.current import interrupted
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.options import (
    ATTRIBUTES,
    JobOptions,
    PushOptions,
    unknown_declared,
    unknown_pushed,
    with_attributes,
)
from kiqbridge.payload import check_json, run_time, shorten
from kiqbridge.queues import fault_of_name
from kiqbridge.registry import (
    ERROR_ACTIONS,
    MARK,
    Exhausted,
    Handling,
    JobDefinition,
    OnError,
    OnMaxRun,
    Pool,
    RetryIn,
    check_signature,
    default_registry,
    definition_of,
)

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
        return _Enqueuer(self).perform_async(*args, **kwargs)

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue in so many seconds, or after a timedelta (§5.6); zero and negative mean now.

        Else as `perform_async`.
        """
        return _Enqueuer(self).perform_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time: epoch seconds or aware datetime. Else as `perform_async`."""
        return _Enqueuer(self).perform_at(when, *args, **kwargs)

    def perform_bulk(
        self,
        args: Sequence[Sequence[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        at: float | list[float] | None = None,
        spread_interval: float | None = None,
    ) -> list[str | None]:
        """Enqueue one job per element of `args`; see `Client.push_bulk`."""
        return _Enqueuer(self).perform_bulk(
            args, batch_size=batch_size, at=at, spread_interval=spread_interval
        )

    def perform_inline(self, *args: P.args, **kwargs: P.kwargs) -> bool | None:
        """Run here and now as a worker would, without Redis and retries; see `inline.perform`.

        Returns True, or None when middleware stopped it; an error of the job is raised.
        """
        return _Enqueuer(self).perform_inline(*args, **kwargs)

    def set(self, **options: Unpack[PushOptions]) -> "Setter[P]":
        """The same job with other options for the next push, such as `queue` or `wait` (seconds).

        Attributes of your own go into `attributes={…}`.

        Raises:
            PayloadError: there is no such option; the message suggests one.
        """
        return Setter(self, options)


class _Enqueuer:
    """Builds items for the default client out of calls; their keys stand in Ruby's order (§3.4)."""

    def __init__(self, declared: object, options: Mapping[str, Any] | None = None) -> None:
        self._definition = _require_definition(declared)
        self._class = {"class": declared}
        self._options = dict(options or {})

    def perform_async(self, *args: Any, **kwargs: Any) -> str | None:
        return default_client().push(self._args_first(args, kwargs))

    def perform_inline(self, *args: Any, **kwargs: Any) -> bool | None:
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

    def perform_bulk(self, args: Sequence[Sequence[Any]], **options: Any) -> list[str | None]:
        if not isinstance(args, Iterable) or isinstance(args, str | bytes | Mapping):
            raise PayloadError(
                f"args: {shorten(args)} is not a list of lists, one list of arguments per job"
            )
        lists = [self._argument_list(element) for element in args]
        given = {name: value for name, value in options.items() if value is not None}
        return default_client().push_bulk({**self._options, **self._class, "args": lists, **given})

    def _argument_list(self, element: object) -> Any:
        """One job's arguments; what is no list is left for the client to refuse."""
        if not isinstance(element, list | tuple):
            return element
        return self._definition.positional(tuple(element), {})

    def _args_first(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._definition.positional(args, kwargs)
        return {**self._options, "args": arguments, **self._class}

    def _push_at(self, when: float | datetime | timedelta, item: dict[str, Any]) -> str | None:
        at = run_time(when, time.time())
        return default_client().push(item if at is None else item | {"at": at})


class Setter(Generic[P]):
    """A job with options for one push, made by `set`."""

    def __init__(self, declared: object, options: Mapping[str, Any]) -> None:
        unknown = unknown_pushed(options)
        if unknown is not None:
            raise PayloadError(f"set: {unknown}")
        if not isinstance(options.get(ATTRIBUTES, {}), Mapping):
            raise PayloadError(
                f"set: attributes: {shorten(options[ATTRIBUTES])} is not a dict of names and values"
            )
        chosen = dict(options)
        waits = [chosen.pop(name) for name in ("wait", "wait_until") if name in chosen]
        if len(waits) > 1:
            raise PayloadError("set: give wait (seconds) or wait_until (a time), not both")
        self._when: float | datetime | timedelta | None = waits[0] if waits else None
        self._declared = declared
        self._options = chosen
        self._enqueuer = _Enqueuer(declared, with_attributes(chosen))

    def set(self, **options: Unpack[PushOptions]) -> "Setter[P]":
        """Further options over these; raises as `FunctionJob.set`."""
        chosen: dict[str, Any] = {**self._options, **options}
        if self._when is not None and not options.keys() & {"wait", "wait_until"}:
            chosen["wait_until"] = self._when
        return Setter(self._declared, chosen)

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue with these options; see `FunctionJob.perform_async`."""
        if self._when is not None:
            return self._enqueuer.perform_set_at(self._when, *args, **kwargs)
        return self._enqueuer.perform_async(*args, **kwargs)

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return self._enqueuer.perform_set_at(seconds, *args, **kwargs)

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return self._enqueuer.perform_set_at(when, *args, **kwargs)

    def perform_inline(self, *args: P.args, **kwargs: P.kwargs) -> bool | None:
        """Run here and now with these options; see `FunctionJob.perform_inline`."""
        return self._enqueuer.perform_inline(*args, **kwargs)

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
    *,
    name: str | None = None,
    queue: str = "default",
    retry: bool | int = True,
    pool: Pool | None = None,
    timeout_s: float | None = None,
    max_run_s: float | None = None,
    on_max_run: OnMaxRun = "requeue",
    retry_in: RetryIn | None = None,
    retries_exhausted: Exhausted | None = None,
    on_error: OnError | None = None,
    **options: Unpack[JobOptions],
) -> Callable[[Callable[P, R]], FunctionJob[P, R]]: ...
def job(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    retry: bool | int = True,
    pool: Pool | None = None,
    timeout_s: float | None = None,
    max_run_s: float | None = None,
    on_max_run: OnMaxRun = "requeue",
    retry_in: RetryIn | None = None,
    retries_exhausted: Exhausted | None = None,
    on_error: OnError | None = None,
    **options: Unpack[JobOptions],
) -> FunctionJob[P, R] | Callable[[Callable[P, R]], FunctionJob[P, R]]:
    """Declare a function, plain or async, as a job; it stays callable and keeps its signature.

    Args:
        function: the function when used without parentheses.
        name: wire name, default the function's `__name__`; a Ruby constant path is fine.
        queue: queue name without prefix.
        retry: True = 25 retries, N = at most N, 0 = straight to dead, False = dropped.
        pool: "thread" or "process" (for work that keeps a CPU busy); `async def` is always "async".
        timeout_s: seconds that one execution may take; what each pool can enforce: docs/engine.md.
        max_run_s: seconds after which a job that still runs is taken away from its worker; longer than
            `timeout_s`.
        on_max_run: what becomes of it: "requeue" or "dead".
        retry_in: (count, error, payload) → seconds until the next try, "discard", "kill", or None
            for the usual delay (§8.3).
        retries_exhausted: (payload, error), called when no tries are left (§8.4).
        on_error: exception class → "discard", "kill", "retry" or seconds, before `retry_in`.
        options: Sidekiq's other options (§3.2), see `JobOptions`: backtrace, dead, tags, retry_for,
            retry_queue, …; `attributes={…}` for attributes of your own.

    Raises:
        ConfigError: the name is taken, there is no such option, an option has no JSON text, or a
            keyword-only parameter has no default.
    """

    def declare(function: Callable[P, R]) -> FunctionJob[P, R]:
        wire_name = name or function.__name__
        definition = _define(
            wire_name,
            _wire_options(wire_name, {"retry": retry, "queue": queue, **options}),
            function,
            instantiate=lambda _jid: declared,
            perform_of=lambda _instance: function,
            signature=inspect.signature(function),
            handling=_handling(
                wire_name,
                function,
                pool=pool,
                timeout_s=timeout_s,
                max_run_s=max_run_s,
                on_max_run=on_max_run,
                retry_in=retry_in,
                retries_exhausted=retries_exhausted,
                on_error=on_error,
            ),
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
        sidekiq_options: any further wire options, and attributes of your own.
        pool, timeout_s, max_run_s, on_max_run, on_error: how it is run and what its failures mean, as for `job`.
        retry_in, retries_exhausted: static methods, as for `job`.
        jid: the job's id while it runs.
    """

    class_name: ClassVar[str]
    queue: ClassVar[str] = "default"
    retry: ClassVar[bool | int] = True
    sidekiq_options: ClassVar[Mapping[str, Any]] = {}
    pool: ClassVar[Pool | None] = None
    timeout_s: ClassVar[float | None] = None
    max_run_s: ClassVar[float | None] = None
    on_max_run: ClassVar[OnMaxRun] = "requeue"
    on_error: ClassVar[OnError | None] = None
    jid: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        perform = getattr(cls, "perform", None)
        if perform is None:
            return
        options = {name: getattr(cls, name) for name in _CLASS_OPTIONS if hasattr(cls, name)}
        signature = inspect.signature(perform)
        parameters = list(signature.parameters.values())
        is_method = inspect.isfunction(inspect.getattr_static(cls, "perform"))
        definition = _define(
            cls.__dict__.get("class_name", cls.__name__),
            {**options, **cls.sidekiq_options},
            cls,
            instantiate=functools.partial(_instantiate, cls),
            perform_of=lambda instance: cast("Callable[..., Any]", instance.perform),
            signature=signature.replace(parameters=parameters[1:] if is_method else parameters),
            handling=_handling(
                cls.__name__,
                perform,
                pool=cls.pool,
                timeout_s=cls.timeout_s,
                max_run_s=cls.max_run_s,
                on_max_run=cls.on_max_run,
                retry_in=getattr(cls, "retry_in", None),
                retries_exhausted=getattr(cls, "retries_exhausted", None),
                on_error=cls.on_error,
            ),
        )
        setattr(cls, MARK, definition)
        default_registry.register(definition)

    @property
    def interrupted(self) -> bool:
        """Whether this job should come to an end soon; see `kiqbridge.interrupted`."""
        return interrupted()

    @classmethod
    def perform_async(cls, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue now; see `FunctionJob.perform_async`."""
        return _Enqueuer(cls).perform_async(*args, **kwargs)

    @classmethod
    def perform_in(cls, seconds: float | timedelta, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue in so many seconds; see `FunctionJob.perform_in`."""
        return _Enqueuer(cls).perform_at(seconds, *args, **kwargs)

    @classmethod
    def perform_at(cls, when: float | datetime, /, *args: Any, **kwargs: Any) -> str | None:
        """Enqueue for a time; see `FunctionJob.perform_at`."""
        return _Enqueuer(cls).perform_at(when, *args, **kwargs)

    @classmethod
    def perform_inline(cls, *args: Any, **kwargs: Any) -> bool | None:
        """Run here and now; see `FunctionJob.perform_inline`."""
        return _Enqueuer(cls).perform_inline(*args, **kwargs)

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
        return _Enqueuer(cls).perform_bulk(
            args, batch_size=batch_size, at=at, spread_interval=spread_interval
        )

    @classmethod
    def set(cls, **options: Unpack[PushOptions]) -> Setter[...]:
        """The same job with other options for the next push; see `FunctionJob.set`."""
        return Setter(cls, options)


def _wire_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    unknown = unknown_declared(options)
    if unknown is not None:
        raise ConfigError(f"job {name!r}: {unknown}")
    if not isinstance(options.get(ATTRIBUTES, {}), Mapping):
        raise ConfigError(
            f"job {name!r}: attributes: {shorten(options[ATTRIBUTES])} is not a dict of names and values"
        )
    return with_attributes(options)


def _define(
    name: str,
    options: Mapping[str, Any],
    declared: Any,
    *,
    instantiate: Callable[[str], Any],
    perform_of: Callable[[Any], Callable[..., Any]],
    signature: inspect.Signature,
    handling: Handling,
) -> JobDefinition:
    check_signature(name, signature)
    if not isinstance(options.get("queue"), str) or not options["queue"]:
        raise ConfigError(f"job {name!r}: queue {options.get('queue')!r} is not a queue name")
    if (fault := fault_of_name(options["queue"])) is not None:
        raise ConfigError(f"job {name!r}: queue {options['queue']!r} {fault}")
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
        spec=getattr(sys.modules.get(declared.__module__), "__spec__", None),
        handling=handling,
    )


def _handling(
    name: str,
    function: Callable[..., Any],
    *,
    pool: Pool | None,
    timeout_s: float | None,
    max_run_s: float | None,
    on_max_run: OnMaxRun,
    retry_in: RetryIn | None,
    retries_exhausted: Exhausted | None,
    on_error: OnError | None,
) -> Handling:
    is_async = inspect.iscoroutinefunction(function)
    if pool not in (None, *get_args(Pool)) or (pool == "thread" and is_async):
        raise ConfigError(
            f"job {name!r}: pool {pool!r} is not thread or process; an `async def` job runs on the "
            "event loop, or in a process with pool='process'"
        )
    if pool == "async" and not is_async:
        raise ConfigError(f"job {name!r}: pool 'async' is for `async def` jobs")
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise ConfigError(
            f"job {name!r}: timeout_s {timeout_s!r} is not a number of seconds above 0"
        )
    _check_max_run(name, timeout_s, max_run_s, on_max_run)
    for kind, action in (on_error or {}).items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigError(f"job {name!r}: on_error {kind!r} is not an exception class")
        if action not in ERROR_ACTIONS and not (_is_number(action) and float(action) > 0):
            raise ConfigError(
                f"job {name!r}: on_error {kind.__name__}: {action!r} is not one of "
                f"{', '.join(ERROR_ACTIONS)} or a number of seconds above 0"
            )
    return Handling(
        pool=pool or ("async" if is_async else "thread"),
        timeout_s=timeout_s,
        max_run_s=max_run_s,
        on_max_run=on_max_run,
        retry_in=retry_in,
        retries_exhausted=retries_exhausted,
        on_error=dict(on_error or {}),
    )


def _check_max_run(
    name: str, timeout_s: float | None, max_run_s: float | None, on_max_run: str
) -> None:
    if on_max_run not in get_args(OnMaxRun):
        raise ConfigError(f"job {name!r}: on_max_run {on_max_run!r} is not requeue or dead")
    if max_run_s is None:
        return
    if not _is_number(max_run_s) or not 0 < max_run_s < float("inf"):
        raise ConfigError(
            f"job {name!r}: max_run_s {max_run_s!r} is not a number of seconds above 0"
        )
    if timeout_s is not None and max_run_s <= timeout_s:
        raise ConfigError(
            f"job {name!r}: max_run_s {max_run_s:g} is not longer than timeout_s {timeout_s:g}: the job "
            "would be taken away before its time limit could end it; make it longer"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@frames.may_take_long
def _instantiate(declared: type[Job], jid: str) -> Job:
    instance = declared()
    instance.jid = jid
    return instance


def _require_definition(declared: object) -> JobDefinition:
    definition = definition_of(declared)
    if definition is None:
        name = getattr(declared, "__qualname__", repr(declared))
        raise ConfigError(f"{name} defines no perform, so it is no job; define perform in it")
    return definition
