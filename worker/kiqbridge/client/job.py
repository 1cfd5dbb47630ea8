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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Unpack, cast, overload

from kiqbridge import seams
from kiqbridge.client import declaration, registry
from kiqbridge.client.arguments import signature_of
from kiqbridge.client.class_calls import ClassCalls
from kiqbridge.client.current import interrupted
from kiqbridge.client.function_job import FunctionJob, P, R
from kiqbridge.errors import ConfigError
from kiqbridge.runtime import frames
from kiqbridge.wire.options import (
    BESIDE,
    ENTERPRISE,
    FLOW_OPTIONS,
    LOCAL,
    SCHEDULED,
    foreign_word,
    with_attributes,
)

_CLASS_OPTIONS = (
    *("retry", "queue", "backtrace", "dead", "tags"),
    *("retry_for", "retry_queue", "log_level", "result_ttl"),
)
_CLASS_HANDLING = LOCAL - BESIDE - {"name"}


@overload
def job(function: Callable[P, R], /) -> FunctionJob[P, R]: ...
@overload
def job(
    **options: Unpack[declaration.JobDeclaration],
) -> Callable[[Callable[P, R]], FunctionJob[P, R]]: ...
def job(
    function: Callable[P, R] | None = None, /, **options: Unpack[declaration.JobDeclaration]
) -> FunctionJob[P, R] | Callable[[Callable[P, R]], FunctionJob[P, R]]:
    """Declare a function, plain or async, as a job; it stays callable and keeps its signature.

    Args:
        function: the function when used without parentheses.
        name: wire name, default the function's `__name__`; a Ruby constant path is fine.
        queue: queue name without prefix.
        retry: True = 25 retries, N = at most N, 0 = straight to dead, False = dropped.
        pool: "thread" or "process" (for work that keeps a CPU busy); `async def` is always "async".
        timeout_s: seconds that one execution may take; what each pool can enforce: docs/explanation/engine.md.
        max_run_s: seconds after which a job that still runs is taken away from its worker; longer than
            `timeout_s`.
        on_max_run: what becomes of it: "requeue" or "dead".
        retry_in: (count, error, payload) → seconds until the next try, "discard", "kill", or None
            for the usual delay (§8.3).
        retry_jitter: False = the seconds of `retry_in` and `on_error` are exact; else, as in Ruby, up to 9 times
            (count + 1) seconds are added.
        retries_exhausted: (payload, error), called when no tries are left (§8.4).
        on_error: exception class → "discard", "kill", "retry" or seconds, before `retry_in`.
        check_arguments: arguments are converted by the annotations of their parameters; False = they pass as
            they are.
        limiter: asked before the job begins, see `kiqbridge.flow.limiter`; or a function that gets the job's
            arguments and returns one. While its limit is reached the job is put off.
        encrypted: True = the last parameter is encrypted in Redis, or the names of those that are.
        options: Sidekiq's other options (§3.2), see `JobOptions`: backtrace, dead, tags, retry_for,
            retry_queue, …; `attributes={…}` for attributes of your own. With `cron` or `every` the workers
            that load it register a schedule, see `ScheduledOptions`: timezone, args, overlap, jitter_s, ….
            `unique`, `debounce` and `throttle` say which of several jobs run: `kiqbridge.flow`.

    Raises:
        ConfigError: the name is taken, there is no such option, or its value cannot be used; or a worker could
            not call the function: a generator, a method, or a keyword-only parameter without a default.
    """

    def declare(function: Callable[P, R]) -> FunctionJob[P, R]:
        wire_name = declaration.name_of_function(function, options.get("name"))
        given = {key: value for key, value in options.items() if key not in LOCAL}
        with declaration.naming(wire_name):
            on_wire = declaration.wire_options({"retry": True, "queue": "default", **given})
        definition = declaration.define(
            wire_name,
            on_wire,
            function,
            options,
            perform=function,
            instantiate=lambda _jid: declared,
            perform_of=lambda _instance: function,
            signature=signature_of(function),
        )
        declared = FunctionJob(function, definition)
        registry.default_registry.register(definition)
        return declared

    return declare if function is None else declare(function)


class Job(ClassCalls):
    """Base of jobs written as classes: set the attributes, define `perform`.

    A subclass with a `perform` is registered when it is defined; one without is a base for others.

    Attributes:
        class_name: wire name, default the class' `__name__`.
        queue, retry, backtrace, dead, tags, retry_for, retry_queue, log_level, result_ttl: wire options (§3.2).
        sidekiq_options: any further wire options, and attributes of your own.
        pool, timeout_s, max_run_s, on_max_run, on_error, retry_jitter, check_arguments: how it is run and what its failures mean, as for `job`.
        retry_in, retries_exhausted: static methods, as for `job`.
        encrypted: as for `job`.
        limiter: a limiter, or a static method that gets the job's arguments and returns one, as for `job`.
        cron, every: make a schedule, as for `job`; not inherited. With one of them `timezone`, `args`,
            `schedule_name`, `overlap`, `jitter_s`, `max_age_s`, `missed` and `description` count.
        unique, debounce, throttle: which of several jobs with the same arguments run, as for `job`.
        jid: the job's id while it runs.

    Options of other distributions' features stand beside the base: `class Sync(Job, deadline_s=60)`.
    """

    class_name: ClassVar[str]
    queue: ClassVar[str] = "default"
    retry: ClassVar[bool | int] = True
    sidekiq_options: ClassVar[Mapping[str, Any]] = {}
    pool: ClassVar[registry.Pool | None] = None
    timeout_s: ClassVar[float | None] = None
    max_run_s: ClassVar[float | None] = None
    on_max_run: ClassVar[registry.OnMaxRun] = "requeue"
    on_error: ClassVar[registry.OnError | None] = None
    retry_jitter: ClassVar[bool] = True
    check_arguments: ClassVar[bool] = True
    encrypted: ClassVar[bool | Sequence[str]]
    jid: str
    _is_remote: ClassVar[bool] = False
    _is_active_job: ClassVar[bool] = False
    _is_cancellable: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        features = {name: kwargs.pop(name) for name in list(kwargs) if seams.owner_of(name)}
        super().__init_subclass__(**kwargs)
        perform = getattr(cls, "perform", None)
        if perform is None:
            return
        options = {name: getattr(cls, name) for name in _CLASS_OPTIONS if hasattr(cls, name)}
        given = [*cls.sidekiq_options, *(name for name in ENTERPRISE if hasattr(cls, name))]
        with declaration.naming(cls.__name__):
            if (unknown := foreign_word(given)) is not None:
                raise ConfigError(unknown)
            on_wire = with_attributes({**options, **cls.sidekiq_options})
        signature = signature_of(perform)
        parameters = list(signature.parameters.values())
        is_method = inspect.isfunction(inspect.getattr_static(cls, "perform"))
        # Its rule of flow control, and the options of its schedule; without `cron` and `every` of its own it
        # has none.
        own = {name: cls.__dict__.get(name) for name in ("cron", "every", "schedule_name")}
        names = set(FLOW_OPTIONS)
        if own["cron"] is None and own["every"] is None:
            own = {}
        else:
            names |= SCHEDULED - own.keys()
        definition = declaration.define(
            cls.__dict__.get("class_name", cls.__name__),
            on_wire,
            cls,
            {
                **{name: getattr(cls, name) for name in _CLASS_HANDLING if hasattr(cls, name)},
                **{
                    name: inspect.getattr_static(cls, name)
                    for name in declaration.FEATURE_OPTIONS
                    if hasattr(cls, name)
                },
                **features,
                **(own | {name: getattr(cls, name) for name in names if hasattr(cls, name)}),
            },
            perform=perform,
            instantiate=functools.partial(_instantiate, cls),
            perform_of=lambda instance: cast("Callable[..., Any]", instance.perform),
            signature=signature.replace(parameters=parameters[1:] if is_method else parameters),
            active_job=cls._is_active_job,
            cancellable=cls._is_cancellable,
        )
        setattr(cls, registry.MARK, definition)
        if cls._is_remote:
            _remote[definition.name] = definition
        else:
            registry.default_registry.register(definition)

    @property
    def interrupted(self) -> bool:
        """Whether this job should end soon; see `kiqbridge.interrupted`."""
        return interrupted()


@frames.may_take_long
def _instantiate(declared: type[Job], jid: str) -> Job:
    instance = declared()
    instance.jid = jid
    return instance


_remote: dict[str, registry.JobDefinition] = {}
"""What `RemoteJob` declares."""


class RemoteJob(Job):
    """Base of classes for jobs that are performed elsewhere, such as in Ruby.

        class HardJob(RemoteJob):
            queue = "ruby"

            def perform(self, user_id: int, name: str) -> None: ...

        HardJob.perform_async(7, "Ada")

    They are no jobs of this process: a worker with this code does not perform them. `kiqbridge contract stubs`
    writes such classes from another application's contract.
    """

    _is_remote: ClassVar[bool] = True


def remote_jobs() -> list[registry.JobDefinition]:
    """The remote jobs that are declared, by name."""
    return [_remote[name] for name in sorted(_remote)]
