"""The limiter of a declared job: asked before the job begins, wherever that runs.

`@job(limiter=ERP)` wraps what is called with the job's arguments, so that threads, the event loop, child
processes and `perform_inline` need to know nothing of it. The limiters themselves are in `kiqbridge.flow`.
"""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from kiqbridge.client.declaration import LimiterRule, Limits, Within
from kiqbridge.client.registry import JobDefinition
from kiqbridge.errors import ConfigError
from kiqbridge.runtime import frames


def limited(definition: JobDefinition, rule: LimiterRule | None) -> JobDefinition:
    """The definition whose jobs begin within the limit.

    Raises:
        ConfigError: `rule` is neither a limiter nor a function.
    """
    if rule is None:
        return definition
    if not (hasattr(rule, "within_limit") or callable(rule)):
        raise ConfigError(
            f"limiter {rule!r} is neither a limiter of kiqbridge.flow nor a function that returns one"
        )
    return replace(definition, perform_of=partial(_limited, rule, definition.perform_of))


def _limited(
    rule: LimiterRule, perform_of: Callable[[Any], Callable[..., Any]], instance: Any
) -> Callable[..., Any]:
    perform = perform_of(instance)
    wrap = _on_loop if inspect.iscoroutinefunction(perform) else _on_thread
    return wrap(rule, perform)


def _on_loop(rule: LimiterRule, perform: Callable[..., Any]) -> Callable[..., Any]:
    @frames.may_take_long
    async def perform_within(*args: Any, **kwargs: Any) -> Any:
        async with _limiter(rule, args, kwargs).within_limit():
            return await perform(*args, **kwargs)

    return perform_within


def _on_thread(rule: LimiterRule, perform: Callable[..., Any]) -> Callable[..., Any]:
    @frames.may_take_long
    def perform_within(*args: Any, **kwargs: Any) -> Any:
        within = _limiter(rule, args, kwargs).within_limit()
        within.__enter__()
        try:
            result = perform(*args, **kwargs)
        except BaseException as error:
            within.__exit__(type(error), error, error.__traceback__)
            raise
        if inspect.iscoroutine(
            result
        ):  # a plain function that returns one: the limiter is left when it has been awaited
            return _awaited(result, within)
        within.__exit__(None, None, None)
        return result

    return perform_within


@frames.may_take_long
async def _awaited(coroutine: Coroutine[Any, Any, Any], within: Within) -> Any:
    try:
        return await coroutine
    finally:
        await within.__aexit__(None, None, None)


@frames.may_take_long
def _limiter(rule: LimiterRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Limits:
    if hasattr(rule, "within_limit"):
        return rule
    chosen = rule(*args, **kwargs)
    if not hasattr(chosen, "within_limit"):
        raise ConfigError(
            f"limiter: the function returned {type(chosen).__name__}, which is no limiter; return what "
            "kiqbridge.flow.limiter makes"
        )
    return chosen
