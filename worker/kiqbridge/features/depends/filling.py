"""Parameters that the worker fills: `def bill(order: int, db: Session = Depends(get_session))`.

1. When a job is declared, its parameters with a `Depends` leave its signature: they never travel, and a push that
   passes one is refused. Their providers, and what those need themselves, are checked.
2. Where a job runs (worker, child process, `perform_inline`, `kiqbridge.testing`), each provider is called once, and
   its value passed by keyword. What lives longer is opened by `@server.lifespan`, and a provider reads it.
3. A provider that is a generator goes on behind its `yield` when the job has ended, the last one first, and the job's
   error is raised there, as in `contextlib.contextmanager`. A job whose error it catches has failed all the same.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeVar, overload

from kiqbridge.client.arguments import JobArguments
from kiqbridge.client.registry import Filled, JobDefinition
from kiqbridge.errors import ConfigError
from kiqbridge.runtime import frames
from kiqbridge.runtime.user_code import is_async, name_of

T = TypeVar("T")
Provider = Callable[..., Any]

OVERRIDES: Final[dict[Provider, Provider]] = {}
"""What is called in the place of a provider; see `kiqbridge.testing.override`."""

_ANY: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Provided(Filled):
    """The default of a parameter that is filled by what a provider returns."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def define(self, definition: JobDefinition, *, on_loop: bool) -> JobDefinition:
        """The definition of a job whose dependencies are filled in when it is called."""
        return injected(definition, on_loop=on_loop)

    def __repr__(self) -> str:
        return f"Depends({name_of(self.provider)})"


@overload
def Depends(provider: Callable[..., AsyncIterator[T]]) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]]) -> T: ...
@overload
def Depends(provider: Callable[..., Coroutine[Any, Any, T]]) -> T: ...
@overload
def Depends(provider: Callable[..., T]) -> T: ...
def Depends(provider: Provider) -> Any:  # noqa: N802 - it stands for a value
    """The default of a parameter that the worker fills with what `provider` returns or yields.

    Args:
        provider: a function, an `async def`, or a generator of one value, plain or async, which goes on when the job
            has ended. Called once for each job. Its own parameters may have a `Depends` as well.

    Raises:
        ConfigError: it cannot be called, or needs an argument that nothing fills.
    """
    if not callable(provider):
        raise ConfigError(f"Depends({provider!r}): it cannot be called; give a function")
    needs = _needs_of(provider)
    for each in _parameters_of(provider):
        if each.name not in needs and each.default is each.empty and each.kind not in _ANY:
            raise ConfigError(
                f"Depends({name_of(provider)}): nothing fills its parameter {each.name}; give that a default, such "
                "as Depends(…)"
            )
    return _Provided(provider)


def is_asynchronous(provider: Provider) -> bool:
    """Whether it, or what it needs, is for `async def` jobs."""
    return (
        inspect.isasyncgenfunction(provider)
        or is_async(provider)
        or any(map(is_asynchronous, _needs_of(provider).values()))
    )


def injected(definition: JobDefinition, *, on_loop: bool) -> JobDefinition:
    """The definition whose jobs get what they declare by `Depends`.

    Args:
        on_loop: whether it is an `async def` job.

    Raises:
        ConfigError: another parameter stands behind, or a provider is async, and the job is not.
    """
    names = [*definition.signature.parameters]
    needs = _needs_among(definition.signature.parameters.values())
    others = [each for name, each in definition.signature.parameters.items() if name not in needs]
    if definition.active_job or names[len(others) :] != [*needs]:
        raise ConfigError(
            f"{', '.join(needs)}: parameters with Depends stand behind all others, in a job that is no Active Job"
        )
    for provider in needs.values():
        if not on_loop and is_asynchronous(provider):
            raise ConfigError(
                f"Depends({name_of(provider)}): it is async, or needs one that is, and the job is not; declare the "
                "job with async def"
            )
    signature, arguments = definition.signature.replace(parameters=others), definition.arguments
    return replace(
        definition,
        signature=signature,
        arguments=arguments and JobArguments(definition.name, arguments.function, signature),
        perform_of=partial(_filling, needs, definition.perform_of),
    )


def _parameters_of(provider: Provider) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(provider).parameters.values()]
    except (ValueError, TypeError):
        return []  # of a builtin


def _needs_among(parameters: Iterable[inspect.Parameter]) -> dict[str, Provider]:
    """The names of those that are filled, and by what."""
    return {
        each.name: each.default.provider for each in parameters if type(each.default) is _Provided
    }


@cache  # asked for each job
def _needs_of(provider: Provider) -> dict[str, Provider]:
    return _needs_among(_parameters_of(provider))


def _filling(
    needs: Mapping[str, Provider], perform_of: Callable[[Any], Provider], instance: Any
) -> Provider:
    perform = perform_of(instance)
    wrap = _on_loop if inspect.iscoroutinefunction(perform) else _on_thread
    return wrap(needs, perform)


def _on_loop(needs: Mapping[str, Provider], perform: Provider) -> Provider:
    @frames.may_take_long
    async def perform_filled(*args: Any) -> Any:
        async with AsyncExitStack() as stack:
            try:
                return await perform(*args, **await _fill(needs, stack, {}))
            except BaseException as error:
                failed = error
                raise
        raise failed  # a provider has caught it

    return perform_filled


def _on_thread(needs: Mapping[str, Provider], perform: Provider) -> Provider:
    @frames.may_take_long
    def perform_filled(*args: Any) -> Any:
        with ExitStack() as stack:
            try:
                return perform(*args, **_at_once(_fill(needs, stack, {})))
            except BaseException as error:
                failed = error
                raise
        raise failed  # a provider has caught it

    return perform_filled


def _at_once(coroutine: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise ConfigError("Depends: a provider of a plain job waits; declare the job with async def")


@frames.may_take_long
async def _fill(
    needs: Mapping[str, Provider], stack: Any, known: dict[Provider, Any]
) -> dict[str, Any]:
    """The values; `known` are those of the job so far. Never waits where all providers are plain."""
    for provider in needs.values():
        if provider in known:
            continue
        called = OVERRIDES.get(provider, provider)
        own = await _fill(_needs_of(called), stack, known)
        if inspect.isgeneratorfunction(called):
            known[provider] = stack.enter_context(contextmanager(called)(**own))
        elif inspect.isasyncgenfunction(called):
            known[provider] = await stack.enter_async_context(asynccontextmanager(called)(**own))
        else:
            value = called(**own)
            known[provider] = await value if is_async(called) else value
    return {name: known[provider] for name, provider in needs.items()}
