"""Checking what a declaration says, and making its definition: used by `@job` and by `Job`."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, cast, get_args

from kiqbridge.client.arguments import JobArguments, signature_of
from kiqbridge.client.limited import LimiterRule, limited
from kiqbridge.client.registry import (
    ERROR_ACTIONS,
    Exhausted,
    Handling,
    JobDefinition,
    OnError,
    OnMaxRun,
    Pool,
    RetryIn,
    check_signature,
    definition_of,
    place_of,
)
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.options import (
    ATTRIBUTES,
    BESIDE,
    FLOW_OPTIONS,
    DeclaredOptions,
    foreign_word,
    unknown_declared,
    with_attributes,
)
from kiqbridge.wire.payload import check_json, shorten, validate
from kiqbridge.wire.queues import fault_of_name


class JobDeclaration(DeclaredOptions, total=False):
    """What `@job` takes; see there."""

    name: str | None
    queue: str
    retry: bool | int
    pool: Pool | None
    timeout_s: float | None
    max_run_s: float | None
    on_max_run: OnMaxRun
    retry_in: RetryIn | None
    retries_exhausted: Exhausted | None
    on_error: OnError | None
    check_arguments: bool
    limiter: LimiterRule | None
    encrypted: bool | Sequence[str]


def wire_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a declaration as they go on the wire.

    Raises:
        ConfigError: there is no such option, or `attributes` is no dict.
    """
    unknown = unknown_declared(options)
    if unknown is not None:
        raise ConfigError(f"job {name!r}: {unknown}")
    if not isinstance(options.get(ATTRIBUTES, {}), Mapping):
        raise ConfigError(
            f"job {name!r}: attributes: {shorten(options[ATTRIBUTES])} is not a dict of names and values"
        )
    return wired(name, options)


def refuse_foreign(name: str, options: Iterable[str]) -> None:
    """Refuse what Sidekiq Enterprise or a gem would act upon, in `sidekiq_options` or as an attribute of a class.

    Raises:
        ConfigError: names the first one, and our word for it.
    """
    unknown = foreign_word(options)
    if unknown is not None:
        raise ConfigError(f"job {name!r}: {unknown}")


def wired(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a declaration as they go on the wire.

    Raises:
        ConfigError: `result_ttl` is no time.
    """
    try:
        return with_attributes(options)
    except PayloadError as error:
        raise ConfigError(f"job {name!r}: {error}") from error


def name_of_function(function: Callable[..., Any], name: str | None) -> str:
    """The wire name of a function that is declared: the given one, or its own.

    Raises:
        ConfigError: it is no function, or one that a worker could not call, or has no name.
    """
    if isinstance(function, type) or not hasattr(function, "__qualname__"):
        raise ConfigError(
            f"@job: {shorten(function)} is no function; write @job above a function, with options @job(name=…, queue=…), "
            "and derive a class from Job"
        )
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(signature_of(function).parameters), "")
    if first in ("self", "cls") and owner and not owner.endswith("<locals>"):
        raise ConfigError(
            f"@job: {function.__qualname__} is a method, and a worker has no {first} to call it with; write a function, "
            "or a class derived from Job with a method perform"
        )
    if name is None and function.__name__ == "<lambda>":
        raise ConfigError(
            "@job: a lambda has no name by which a payload could name it; write a def, or @job(name=…)"
        )
    return function.__name__ if name is None else name


def define(
    name: str,
    options: Mapping[str, Any],
    declared: Any,
    given: Mapping[str, Any],
    *,
    perform: Callable[..., Any],
    instantiate: Callable[[str], Any],
    perform_of: Callable[[Any], Callable[..., Any]],
    signature: inspect.Signature,
    active_job: bool = False,
) -> JobDefinition:
    """A checked definition; see `JobDefinition` for the other arguments.

    Args:
        given: what else the declaration says: `JobDeclaration` without what goes on the wire.
        perform: the function, by whose annotations arguments are converted.

    Raises:
        ConfigError: a keyword-only parameter has no default, the name or `queue` is none, `retry` is no number
            of retries, an option has no JSON text, or one of `given` cannot be used.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ConfigError(
            f"job {name!r}: the name of {declared.__qualname__} is not a text of printable characters; write a "
            "name such as Reports::Nightly, or leave it out"
        )
    if not active_job:
        check_signature(name, signature)
    for option in ("queue", "retry_queue"):
        queue = options.get(option, "default")
        fault = fault_of_name(queue) if isinstance(queue, str) else "is not a queue name"
        if fault is None and any(map(str.isspace, queue)):
            fault = "holds white space"
        if fault is not None:
            raise ConfigError(
                f"job {name!r}: {option} {shorten(queue)} {fault}; write a name such as mailers"
            )
    _check_retry(name, options.get("retry"))
    try:
        for option, value in options.items():
            check_json(value, option)
        validate({"class": name, "args": [], **options})
    except PayloadError as error:
        raise ConfigError(f"job {name!r}: option {error}") from error
    checks = given.get("check_arguments", True)
    definition = JobDefinition(
        name=name,
        options=dict(options),
        instantiate=instantiate,
        perform_of=perform_of,
        signature=signature,
        origin=f"{declared.__module__}.{declared.__qualname__}",
        place=place_of(declared),
        handling=_handling_of(name, perform, given),
        arguments=JobArguments(name, perform, signature) if checks else None,
        active_job=active_job,
    )
    beside = {key: given[key] for key in BESIDE if given.get(key) is not None}
    definition = limited(_scheduled(definition, beside), given.get("limiter"))
    definition = _encrypting(definition, given.get("encrypted", False))
    if active_job and (definition.rule or definition.encrypted or definition.schedule):
        raise ConfigError(
            f"job {name!r}: an Active Job takes no rule of flow control, no schedule and no encryption from its "
            "class; leave them out"
        )
    return definition


def _scheduled(definition: JobDefinition, given: dict[str, Any]) -> JobDefinition:
    """The definition with the schedule and the rule of flow control that its declaration asks for, if it does."""
    if not given:
        return definition
    rules = {name: given.pop(name) for name in FLOW_OPTIONS if name in given}
    if rules:
        definition = _ruled(definition, rules)
    if not given:
        return definition
    if not {"cron", "every"} & given.keys():
        raise ConfigError(
            f"job {definition.name!r}: {min(given)} is for a job with a schedule; add cron or every"
        )
    # Few jobs have one, and a function that only enqueues starts the sooner.
    from kiqbridge.client.schedule import (  # noqa: PLC0415
        check_fires,
        check_name,
        job_item,
        make_definition,
    )

    name, args = given.pop("schedule_name", definition.name), given.pop("args", [])
    try:
        check_name(name)
        item = job_item(definition, args, queue=None, attributes={})
        made = make_definition(name, [item], cast("Any", given), origin="code")
        check_fires(made)
    except (ConfigError, PayloadError) as error:
        raise ConfigError(
            f"job {definition.name!r}: its schedule: {error}"
            + ("; give args=[…] with what it needs" if isinstance(error, PayloadError) else "")
        ) from error
    return replace(definition, schedule=made)


def _ruled(definition: JobDefinition, options: Mapping[str, Any]) -> JobDefinition:
    from kiqbridge.client.unique import check_rule, rule_among  # noqa: PLC0415 - as schedules

    try:
        rule = rule_among(options)
    except ConfigError as error:
        raise ConfigError(f"job {definition.name!r}: {error}") from error
    if rule is not None:
        check_rule(rule, definition)
    return replace(definition, rule=rule)


def _handling_of(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> Handling:
    """How jobs of a declaration are run; raises ConfigError for a value that cannot be used."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"job {name!r}: {function.__qualname__} has a yield, so that calling it would not run its body; for work "
            "in many steps declare an IterableJob: build_enumerator yields the items, each_iteration does the work "
            "(docs/iterable.md)"
        )
    is_async = inspect.iscoroutinefunction(function)
    pool, on_error = given.get("pool"), given.get("on_error") or {}
    if pool not in (None, *get_args(Pool)) or (pool == "thread" and is_async):
        raise ConfigError(
            f"job {name!r}: pool {pool!r} is not thread or process; an `async def` job runs on the "
            "event loop, or in a process with pool='process'"
        )
    if pool == "async" and not is_async:
        raise ConfigError(f"job {name!r}: pool 'async' is for `async def` jobs")
    timeout_s, max_run_s = given.get("timeout_s"), given.get("max_run_s")
    on_max_run = given.get("on_max_run", "requeue")
    _check_seconds(name, "timeout_s", timeout_s)
    _check_max_run(name, timeout_s, max_run_s, on_max_run)
    for kind, action in on_error.items():
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
        retry_in=given.get("retry_in"),
        retries_exhausted=given.get("retries_exhausted"),
        on_error=dict(on_error),
    )


def _encrypting(definition: JobDefinition, encrypted: bool | Sequence[str]) -> JobDefinition:  # noqa: FBT001 - as declared
    """The definition with the places of the arguments that are encrypted."""
    if encrypted is False:
        return definition
    placed = [
        each.name
        for each in definition.signature.parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    names = placed[-1:] if encrypted is True else encrypted
    if isinstance(names, str) or not names or not set(names) <= set(placed):
        raise ConfigError(
            f"job {definition.name!r}: encrypted {encrypted!r} names no parameters of it; write True for the last "
            f"one, or a list out of {', '.join(placed) or 'its parameters (it has none)'}"
        )
    return replace(definition, encrypted=tuple(sorted(map(placed.index, names))))


def require_definition(declared: object) -> JobDefinition:
    """The definition behind a declared function or class.

    Raises:
        ConfigError: it is a class without `perform`.
    """
    definition = definition_of(declared)
    if definition is None:
        name = getattr(declared, "__qualname__", repr(declared))
        raise ConfigError(f"{name} defines no perform, so it is no job; define perform in it")
    return definition


def _check_max_run(
    name: str, timeout_s: float | None, max_run_s: float | None, on_max_run: str
) -> None:
    if on_max_run not in get_args(OnMaxRun):
        raise ConfigError(f"job {name!r}: on_max_run {on_max_run!r} is not requeue or dead")
    _check_seconds(name, "max_run_s", max_run_s)
    if max_run_s is not None and timeout_s is not None and max_run_s <= timeout_s:
        raise ConfigError(
            f"job {name!r}: max_run_s {max_run_s:g} is not longer than timeout_s {timeout_s:g}: the job "
            "would be taken away before its time limit could end it; make it longer"
        )


def _check_seconds(name: str, what: str, value: object) -> None:
    if value is not None and not (_is_number(value) and 0 < float(value) < float("inf")):
        raise ConfigError(
            f"job {name!r}: {what} {shorten(value)} is not a number of seconds above 0; write one such as 30"
        )


def _check_retry(name: str, retry: object) -> None:
    if not isinstance(retry, int) or retry < 0:
        raise ConfigError(
            f"job {name!r}: retry {shorten(retry)} is not a number of retries; write True (25), a whole number, 0 "
            "(dead at the first failure) or False (dropped)"
        )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
