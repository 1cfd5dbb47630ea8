"""Performing them: what is called with the wrapper's argument, with the arguments as Rails meant them (protocol §17)."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kiqbridge.client.arguments import takes
from kiqbridge.errors import ArgumentMismatch, PayloadError
from kiqbridge.features.active_job import values
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten

if TYPE_CHECKING:
    from kiqbridge.client.registry import JobDefinition

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RailsJob:
    """The Active Job that runs here, as Rails serialized it.

    Attributes:
        executions: how often it was performed, this time included, as Rails counts: what `retry_on` or
            `retry_job` of Rails enqueued anew counts on; Sidekiq's own retries do not, since they perform
            what was enqueued again as it was (their number is the payload's `retry_count`).
        exception_executions: Rails' counts for each `retry_on`, by its exceptions.
        enqueued_at: ISO 8601, as `scheduled_at`, which Rails has from 7.1 on.
    """

    job_class: str
    job_id: Any
    queue_name: Any
    priority: Any
    executions: int
    exception_executions: Mapping[str, int]
    locale: Any
    timezone: Any
    enqueued_at: Any
    scheduled_at: Any


_AS_THEY_ARE = (
    *("job_id", "queue_name", "priority", "locale", "timezone", "enqueued_at", "scheduled_at"),
)
_RUNNING: ContextVar[Mapping[str, Any] | None] = ContextVar("kiqbridge_rails_job", default=None)


def current_job() -> RailsJob | None:
    """The Active Job that runs here; None in a job that was not enqueued by Rails."""
    data = _RUNNING.get()
    if data is None:
        return None
    before, counts = data.get("executions"), data.get("exception_executions")
    return RailsJob(
        job_class=data["job_class"],
        executions=(before if type(before) is int else 0) + 1,
        exception_executions=counts if isinstance(counts, dict) else {},
        **{name: data.get(name) for name in _AS_THEY_ARE},
    )


def written(
    definition: "JobDefinition", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arguments of a call for `form.serialize`; keywords are the last one.

    Raises:
        PayloadError: the job could not be called like this, or a value is not what its parameter is annotated with.
    """
    try:
        definition.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise PayloadError(
            f"args: {definition.name} cannot be called like this: {error}"
        ) from error
    if definition.arguments is not None:
        try:
            definition.arguments.from_values(list(args), kwargs, values.as_json)
        except ArgumentMismatch as error:
            raise PayloadError(f"args: {error}") from None
    return [*args, {**kwargs, values.KEYWORDS: list(kwargs)}] if kwargs else list(args)


def perform_of(definition: "JobDefinition", instance: Any) -> Callable[..., Any]:
    """What is called with the wrapper's argument."""
    function = definition.perform_of(instance)
    if inspect.iscoroutinefunction(function):

        async def perform_on_loop(*wrapped: Any) -> Any:
            data, args, kwargs = _call_of(definition, wrapped)
            return await _within(data, function(*args, **kwargs))

        return perform_on_loop

    def perform(*wrapped: Any) -> Any:
        data, args, kwargs = _call_of(definition, wrapped)
        token = _RUNNING.set(data)
        try:
            result = function(*args, **kwargs)
        finally:
            _RUNNING.reset(token)
        return _within(data, result) if inspect.iscoroutine(result) else result

    return perform


async def _within(data: Mapping[str, Any], coroutine: Any) -> Any:
    """What a function gave back to be awaited."""
    token = _RUNNING.set(data)
    try:
        return await coroutine
    finally:
        _RUNNING.reset(token)


def _call_of(
    definition: "JobDefinition", wrapped: tuple[Any, ...]
) -> tuple[Mapping[str, Any], list[Any], Mapping[str, Any]]:
    """The serialized job, and the arguments and keywords to call with.

    Raises:
        PayloadError: it is none, or an argument cannot be read.
        ArgumentMismatch: an argument is not what its parameter is annotated with.
    """
    if len(wrapped) != 1 or not isinstance(wrapped[0], dict):
        raise PayloadError(
            f"args: {shorten(list(wrapped))} is not one serialized Active Job, the only argument of Rails' wrapper"
        )
    [data] = wrapped
    raw = data.get("arguments")
    args: list[Any] = values.deserialize_arguments(raw)
    kwargs: Mapping[str, Any] = {}
    if args and isinstance(args[-1], dict):
        args, kwargs = _with_keywords(definition.signature, args, raw[-1])
    if definition.arguments is not None:
        args, kwargs = definition.arguments.from_values(args, kwargs, values.as_json)
    if kwargs and not _takes_any(definition.signature, kwargs, _NAMED[1:]):
        # Iterable jobs take no others.
        args, kwargs = definition.bind(tuple(args), kwargs), {}
    return data, args, kwargs


def _with_keywords(
    signature: inspect.Signature, args: list[Any], last: Mapping[str, Any]
) -> tuple[list[Any], Mapping[str, Any]]:
    """Whether the last hash is keyword arguments, as Ruby decides it.

    Rails 6.1 and later note what was written without braces. Ruby makes that keywords of a method that has
    any, and else a positional hash. Before, a last hash of symbols was either; it is keywords only where it
    fits in no other way.
    """
    before, keywords = args[:-1], {str(key): value for key, value in args[-1].items()}
    if values.KEYWORDS in last:
        if not keywords or _takes_any(signature, keywords):
            return before, keywords
        return args, {}
    may_be = bool(keywords) and values.SYMBOL_KEYS in last and _is_all_symbols(last)
    if may_be and not takes(signature, args, {}) and takes(signature, before, keywords):
        return before, keywords
    return args, {}


def _takes_any(
    signature: inspect.Signature, keywords: Mapping[str, Any], kinds: Sequence[Any] = _NAMED
) -> bool:
    """Whether one of these keywords belongs to a parameter of these kinds."""
    return any(
        each.kind is each.VAR_KEYWORD or (each.kind in kinds and each.name in keywords)
        for each in signature.parameters.values()
    )


def _is_all_symbols(last: Mapping[str, Any]) -> bool:
    noted = last[values.SYMBOL_KEYS]
    return isinstance(noted, list) and all(key in values.RESERVED or key in noted for key in last)
