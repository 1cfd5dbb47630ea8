"""`task_routes`: which queue a task goes to, in each form that Celery takes; what is no such form is refused when it is set."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge.compat.celery.options import instead_of
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.queues import fault_of_name

Rule = Callable[..., object]
"""(name, args, kwargs, options, task) → a route, or None: the next rule is asked."""

_FIELD: Final = "conf.task_routes"


class Routes:
    """The rules of `task_routes`, the first of which that knows a task counts.

    Args:
        value: a dict of pattern and route; a function; or a list of these, of pairs, and of lists of pairs. A pattern
            is a name, with `*` for any characters, or a compiled regular expression. A route is the name of a queue,
            or `{"queue": NAME}`.

    Raises:
        ConfigError: another form, or a route that says what has no counterpart here, such as a priority.
    """

    def __init__(self, value: object) -> None:
        self._rules = list(_rules(value))

    def queue_of(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> str | None:
        """Where the task goes; None: no rule knows it.

        Raises:
            ConfigError: a function returned what is no route.
        """
        for rule in self._rules:
            route = rule(name, list(args), dict(kwargs or {}), {}, task=None)
            if route is not None and (queue := _queue(f"{_FIELD}: for {name}", route)):
                return queue
        return None


def _rules(value: object, *, is_inner: bool = False) -> Iterator[Rule]:
    if isinstance(value, Mapping):
        yield from (_matching(pattern, route) for pattern, route in value.items())
    elif callable(value):
        yield value
    elif isinstance(value, list | tuple):
        if _is_pair(value):
            yield _matching(*value)
        else:
            for each in value:
                yield from _rules(each, is_inner=True)
    elif value is not None or is_inner:
        raise ConfigError(
            f"{_FIELD}: {shorten(value)} is no rule; give a dict of name and queue, a list of such pairs, or a function "
            "itself (not its name)"
        )


def _is_pair(value: Sequence[object]) -> bool:
    return (
        len(value) == 2  # noqa: PLR2004 - a pair
        and isinstance(value[0], str | re.Pattern)
        and isinstance(value[1], str | Mapping)
    )


def _matching(pattern: object, route: object) -> Rule:
    queue = _queue(f"{_FIELD}: {getattr(pattern, 'pattern', pattern)}", route)
    if isinstance(pattern, re.Pattern):
        return lambda name, *_args, **_options: queue if pattern.match(name) else None
    if not isinstance(pattern, str):
        raise ConfigError(
            f"{_FIELD}: {shorten(pattern)} is no name of a task; give a text, in which * stands for any characters, or "
            "re.compile(…)"
        )
    return lambda name, *_args, **_options: queue if fnmatchcase(name, pattern) else None


def _queue(where: str, route: object) -> str:
    """The queue that a route names; a fault of it says where it stands."""
    if isinstance(route, Mapping):
        for option, value in route.items():
            if option not in ("queue", "routing_key") and value is not None:
                raise ConfigError(
                    f"{where}: {option}={value!r} has no counterpart here: {instead_of(option)}"
                )
        route = route.get("queue") or route.get("routing_key")
    fault = fault_of_name(route) if isinstance(route, str) else "is no name of a queue"
    if fault is not None:
        raise ConfigError(f'{where}: {shorten(route)} {fault}; write {{"queue": "mail"}}')
    return str(route)
