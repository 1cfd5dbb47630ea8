"""Checking what a declaration says, and making its definition: used by `@job` and by `Job`."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol, TypedDict, cast, get_args

from kiqbridge import feature, seams
from kiqbridge.client import registry
from kiqbridge.client.arguments import JobArguments, signature_of
from kiqbridge.client.option_values import check_values
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.options import (
    BESIDE,
    FLOW_OPTIONS,
    KNOWN,
    LOCAL,
    DeclaredOptions,
    unknown_declared,
    with_attributes,
)
from kiqbridge.wire.payload import check_json, is_number, validate
from kiqbridge.wire.queues import fault_of_name


class Within(AbstractContextManager[object], AbstractAsyncContextManager[object], Protocol):
    """The time within a limit, `with` or `async with`."""


class Limits(Protocol):
    """A limiter, such as `kiqbridge.flow.limiter` makes."""

    def within_limit(self) -> Within:
        """A context whose body runs within the limit."""


LimiterRule = Limits | Callable[..., Limits]
"""A limiter, or a function that gets the job's arguments and returns one."""


class FeatureOptions(TypedDict, total=False):
    """Options of features of this package, for type checkers and as attributes of classes."""

    limiter: LimiterRule | None
    encrypted: bool | Sequence[str]


FEATURE_OPTIONS: Final = frozenset(FeatureOptions.__annotations__)


class JobDeclaration(DeclaredOptions, FeatureOptions, total=False):
    """What `@job` takes; see there."""

    name: str | None
    queue: str
    retry: bool | int
    pool: registry.Pool | None
    timeout_s: float | None
    max_run_s: float | None
    on_max_run: registry.OnMaxRun
    retry_in: registry.RetryIn | None
    retry_jitter: bool
    retries_exhausted: registry.Exhausted | None
    on_error: registry.OnError | None
    check_arguments: bool


@contextmanager
def naming(name: object) -> Iterator[None]:
    """What is wrong with a declaration is said with the name of its job, as a ConfigError."""
    try:
        yield
    except (ConfigError, PayloadError) as error:
        raise ConfigError(f"job {name!r}: {error}") from error


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a declaration as they go on the wire, without those of features.

    Raises:
        ConfigError: there is no such option.
        PayloadError: as `with_attributes`.
    """
    owners = _owners(options)
    return with_attributes({key: value for key, value in options.items() if key not in owners})


def _owners(options: Mapping[str, Any]) -> dict[str, feature.Feature]:
    """The options that features have, and whose each is; raises ConfigError for one that there is not."""
    owners = {name: seams.owner_of(name) for name in options if name not in KNOWN}
    for name, owner in owners.items():
        if owner is None and name in FEATURE_OPTIONS:
            raise ConfigError(
                f"{name}: the feature that has this option is not here; reinstall kiqbridge, or leave the option out"
            )
        if owner is None:
            raise ConfigError(unknown_declared([name]))
    return cast("dict[str, feature.Feature]", owners)


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
    cancellable: bool = False,
) -> registry.JobDefinition:
    """A checked definition; see `JobDefinition` for the other arguments.

    Args:
        given: what else the declaration says: `JobDeclaration` without what goes on the wire.
        perform: the function, by whose annotations arguments are converted.

    Raises:
        ConfigError: a keyword-only parameter has no default, the name or `queue` is none, `retry` is no number
            of retries, an option has no JSON text, or one of `given` cannot be used.
    """
    with naming(name):
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(
                f"the name of {declared.__qualname__} is not a text of printable characters; write a name such as "
                "Reports::Nightly, or leave it out"
            )
        if not active_job:
            _check_signature(signature)
        check_values({key: value for key, value in options.items() if key not in LOCAL})
        check_values({key: value for key, value in given.items() if key in LOCAL})
        _check_options(name, options)
        definition = registry.JobDefinition(
            name=name,
            options=dict(options),
            instantiate=instantiate,
            perform_of=perform_of,
            signature=signature,
            origin=f"{declared.__module__}.{declared.__qualname__}",
            place=registry.place_of(declared),
            handling=_handling_of(perform, given),
            arguments=(
                JobArguments(name, perform, signature)
                if given.get("check_arguments", True)
                else None
            ),
            active_job=active_job,
            cancellable=cancellable,
        )
        beside = {key: given[key] for key in BESIDE if given.get(key) is not None}
        if beside:
            definition = _scheduled(definition, beside)
        filled = registry.filled_among(signature.parameters.values()).values()
        for each in {type(each): each for each in filled}.values():
            definition = each.define(definition, on_loop=inspect.iscoroutinefunction(perform))
        for option, owner in _owners(given).items():
            definition = _with_feature(definition, owner, option, given[option])
        if active_job and (definition.rule or definition.encrypted or definition.schedule):
            raise ConfigError(
                "an Active Job takes no rule of flow control, no schedule and no encryption from its class; "
                "leave them out"
            )
    return definition


def _with_feature(
    definition: registry.JobDefinition, owner: feature.Feature, option: str, value: Any
) -> registry.JobDefinition:
    try:
        made = owner.load(owner.options[option])(definition, value)
    except (ConfigError, PayloadError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"option {option}: feature {owner.package} failed to apply it: {said}"
        ) from error
    if not isinstance(made, registry.JobDefinition):
        raise ConfigError(f"option {option}: feature {owner.package} returned no JobDefinition")
    return made


def _check_signature(signature: inspect.Signature) -> None:
    """Refuse what can never be called with a list of arguments."""
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ConfigError(
                f"parameter {parameter.name!r} can only be given by keyword and has no default, but a job's "
                "arguments are a list; make it positional or give it a default"
            )


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    for option in ("queue", "retry_queue"):
        queue = options.get(option, "default")
        fault = fault_of_name(queue) if isinstance(queue, str) else "is not a queue name"
        if fault is None and any(map(str.isspace, queue)):
            fault = "holds white space"
        if fault is not None:
            raise ConfigError(f"{option} {shorten(queue)} {fault}; write a name such as mailers")
    try:
        for option, value in options.items():
            check_json(value, option)
        validate({"class": name, "args": [], **options})
    except PayloadError as error:
        raise ConfigError(f"option {error}") from error


def _scheduled(definition: registry.JobDefinition, given: dict[str, Any]) -> registry.JobDefinition:
    """The definition with the schedule and the rule of flow control that its declaration asks for."""
    rules = {name: given.pop(name) for name in list(given) if name in FLOW_OPTIONS}
    if rules:
        from kiqbridge.wire.rules import rule_among  # noqa: PLC0415 - few have one

        rule = rule_among(rules)
        if rule is not None:
            rule.check(definition.signature)
        definition = replace(definition, rule=rule)
    if not given:
        return definition
    if not {"cron", "every"} & given.keys():
        raise ConfigError(f"{min(given)} is for a job with a schedule; add cron or every")
    declared: registry.JobDefinition = seams.call("cron")(definition, given)
    return declared


def _handling_of(function: Callable[..., Any], given: Mapping[str, Any]) -> registry.Handling:
    """How jobs of a declaration are run; raises ConfigError for a value that cannot be used."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"{function.__qualname__} has a yield, so that calling it would not run its body; for work in many steps "
            "declare an IterableJob: build_enumerator yields the items, each_iteration does the work "
            "(docs/how_to/iterable.md)"
        )
    is_async = inspect.iscoroutinefunction(function)
    pool, on_error = given.get("pool"), given.get("on_error") or {}
    if pool not in (None, *get_args(registry.Pool)) or (pool == "thread" and is_async):
        raise ConfigError(
            f"pool {pool!r} is not thread or process; an `async def` job runs on the event loop, or in a process "
            "with pool='process'"
        )
    if pool == "process" and not any(pool in each.pools for each in seams.shipped()):
        raise ConfigError("pool 'process' is of the feature process_pool, which is not installed")
    if pool == "async" and not is_async:
        raise ConfigError("pool 'async' is for `async def` jobs")
    timeout_s, max_run_s = given.get("timeout_s"), given.get("max_run_s")
    on_max_run = given.get("on_max_run", "requeue")
    if max_run_s is not None and timeout_s is not None and max_run_s <= timeout_s:
        raise ConfigError(
            f"max_run_s {max_run_s:g} is not longer than timeout_s {timeout_s:g}: the job would be taken away before "
            "its time limit could end it; make it longer"
        )
    for kind, action in on_error.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigError(f"on_error {kind!r} is not an exception class")
        if action not in registry.ERROR_ACTIONS and not (is_number(action) and action > 0):
            raise ConfigError(
                f"on_error {kind.__name__}: {action!r} is not one of {', '.join(registry.ERROR_ACTIONS)} or a number of "
                "seconds above 0"
            )
    if max_run_s is not None and seams.named("reservations") is None:
        raise ConfigError("max_run_s is of the feature reservations, which is not installed")
    return registry.Handling(
        pool=pool or ("async" if is_async else "thread"),
        timeout_s=timeout_s,
        max_run_s=max_run_s,
        on_max_run=on_max_run,
        retry_in=given.get("retry_in"),
        retry_jitter=given.get("retry_jitter", True),
        retries_exhausted=given.get("retries_exhausted"),
        on_error=dict(on_error),
    )


def require_definition(declared: object) -> registry.JobDefinition:
    """The definition behind a declared function or class.

    Raises:
        ConfigError: it is a class without `perform`.
    """
    definition = registry.definition_of(declared)
    if definition is None:
        name = getattr(declared, "__qualname__", repr(declared))
        raise ConfigError(f"{name} defines no perform, so it is no job; define perform in it")
    return definition
