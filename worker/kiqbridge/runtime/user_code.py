"""Calling functions of users that are no jobs: handlers, listeners, rules of a class, cleaners.

Whatever such a function raises is logged and ends nothing. That includes what `except Exception`
passes on (SystemExit of a `sys.exit()`, KeyboardInterrupt, a Rust extension's PanicException) and an
error whose own text cannot be read. Jobs are not called here: their errors decide what becomes of them.
"""

import contextlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

from kiqbridge.runtime import frames, job_forks


@frames.may_take_long
def call(function: Callable[..., Any], *args: object, log: logging.Logger, failed: str) -> Any:
    """What the function returns; None when it raised anything, which is logged.

    Args:
        function: a user's.
        args: for it.
        log: where its error is logged.
        failed: what the line says after the function's name, such as "a listener to quiet failed".
    """
    try:
        result = function(*args)
    except BaseException as error:  # noqa: BLE001 - nothing of a user's may end a thread of ours
        if job_forks.in_child:
            job_forks.end(error)
        log_error(log, error, "%s: %s", failed, name_of(function))
        return None
    if job_forks.in_child:  # it has forked, and this is the child
        job_forks.end()
    return result


def log_error(log: logging.Logger, error: BaseException, message: str, *args: object) -> None:
    """Log an error with its traceback; never raises, also when the error's own text cannot be read."""
    try:
        log.error(message, *args, exc_info=error)
    except BaseException as unreadable:  # noqa: BLE001 - its `__str__` is a user's code as well
        with contextlib.suppress(BaseException):
            log.error(  # noqa: TRY400 - the traceback is what cannot be written
                "%s (a %s, whose text cannot be read: %s)",
                message % args,
                type(error).__qualname__,
                type(unreadable).__name__,
            )


def name_of(function: object) -> str:
    """A function as people know it; never raises."""
    try:
        return str(getattr(function, "__qualname__", None) or repr(function))
    except BaseException:  # noqa: BLE001 - as above
        return object.__repr__(function)


def is_async(entry: Callable[..., Any]) -> bool:
    """Whether calling this gives something to await."""
    return inspect.iscoroutinefunction(entry) or inspect.iscoroutinefunction(
        getattr(entry, "__call__", None)  # noqa: B004 - an instance with an `async def __call__`
    )


@frames.may_take_long
def link(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Callable[[], Any]:
    """A call of one middleware, with what it calls on to."""
    return lambda: entry(*args, call_next)
