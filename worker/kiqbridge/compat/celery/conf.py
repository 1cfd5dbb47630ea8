"""The settings of an application: Celery's names, of which each means something here, or is refused.

`task_always_eager` is also for what is more than a call of one task: chains, groups, batches, and jobs of `@job`. While it
is set, the default client has no server: what is pushed through it is performed in memory before the push returns
(kiqbridge.testing, loaded when it is needed).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kiqbridge.compat.celery.options import INSTEAD, instead_of
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.queues import fault_of_name

if TYPE_CHECKING:
    from datetime import timedelta


from kiqbridge.client.client import Client
from kiqbridge.client.default_client import replace_default_client

_made: Client | None = None
"""What stands in for the default client."""
_former: Client | None = None
"""What it stands in for; None: nothing was configured."""


def switch_on(propagates: Callable[[], bool]) -> None:
    """From now on nothing that the default client pushes goes to a server.

    Args:
        propagates: whether an error is raised in the place of the push.
    """
    global _made, _former  # noqa: PLW0603 - one default client for the process
    from kiqbridge.testing.eager import eager_client  # noqa: PLC0415 - for tests only

    made = eager_client(propagates)
    former = replace_default_client(made)
    if former is None or former is not _made:
        _former = former
    _made = made


def switch_off() -> None:
    """Undo `switch_on`; a client that was configured since then stays."""
    global _made, _former  # noqa: PLW0603 - as above
    former = replace_default_client(_former)
    if former is not _made:
        replace_default_client(former)
    _made = _former = None


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


DAY_S: Final = 86_400.0

_IMPLIED_SETTINGS: Final[Mapping[str, tuple[object, ...]]] = {
    "task_serializer": ("json",),
    "result_serializer": ("json",),
    "task_acks_late": (True, False),
    "task_reject_on_worker_lost": (True, False),
    "task_track_started": (True, False),
    "enable_utc": (True,),
    "timezone": ("UTC",),
    "broker_connection_retry_on_startup": (True,),
    "worker_prefetch_multiplier": tuple(range(1, 65)),
    "worker_hijack_root_logger": (True, False),
    "task_store_eager_result": (False,),
}


_BEGINNINGS: Final = (
    "task_", "worker_", "result_", "broker_", "beat_", "event_", "redis_", "celery", "imports", "include",
    "database_", "cache_", "security_", "control_",
)  # fmt: skip


class Conf:
    """The settings of an application.

    Attributes:
        task_default_queue: for tasks and calls that name none; `default`.
        task_routes: which queue a task goes to, see `routes.Routes`.
        task_always_eager: run each call at once, in the caller, as tests like it; so are chains, groups and batches of
            `kiqbridge.flow`, and all else that the default client pushes.
        task_eager_propagates: raise the error of such a call in its place; else it is in the result.
        result_backend: an address of Redis: results are kept, in the Redis of the jobs; None: they are not.
        result_expires: seconds, or a timedelta, for which they are; a day.
        task_ignore_result: keep none unless a task says `ignore_result=False`.
    """

    OWN: ClassVar = frozenset([
        "task_default_queue", "task_routes", "task_always_eager", "task_eager_propagates",
        "result_backend", "result_expires", "task_ignore_result",
    ])  # fmt: skip

    def __init__(
        self, on_routed: Callable[[], object] = lambda: None, listed: Callable[[str], str] = str
    ) -> None:
        self._routes = Routes(None)
        self._on_routed = on_routed
        self._listed = listed
        self._is_eager = False
        self.task_default_queue = "default"
        self.task_routes: Any = None
        self.task_always_eager = False
        self.task_eager_propagates = False
        self.result_backend: str | None = None
        self.result_expires: float | timedelta = DAY_S
        self.task_ignore_result = False

    @classmethod
    def is_setting(cls, name: str) -> bool:
        """Whether a name is one of Celery's settings, by its own list or by how they begin."""
        known = name in cls.OWN or name in _IMPLIED_SETTINGS or name in INSTEAD
        return known or name.startswith(_BEGINNINGS)

    def update(self, settings: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set several.

        Raises:
            ConfigError: a setting that has no counterpart; says what to write in its place.
        """
        for name, value in {**(settings or {}), **more}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "result_backend":
            if value in ("", "disabled://", "rpc://"):
                value = None
            is_kept = value is None or str(value).startswith(("redis://", "rediss://", "unix://"))
        elif name == "result_expires":
            is_kept = bool(value)
        elif name == "task_routes":
            self._routes = Routes(value)
            is_kept = True
        else:
            is_kept = name in self.OWN or name.startswith("_")  # which is no setting
        if is_kept:
            object.__setattr__(self, name, value)
            if name == "task_always_eager":
                self.follow_eager()
            if name in ("task_routes", "task_default_queue"):
                self._on_routed()
            return
        if name == "accept_content" and set(value) == {"json"}:
            return
        if value in _IMPLIED_SETTINGS.get(name, ()):
            return
        hint = INSTEAD.get(name, "see docs/reference/settings.md for what a worker takes")
        raise ConfigError(self._listed(f"conf.{name}: {value!r} has no counterpart here: {hint}"))

    def follow_eager(self) -> None:
        """Let the default client do what `task_always_eager` says; called when that, or the client, has changed."""
        if self.task_always_eager:
            self._is_eager = True
            switch_on(lambda: self.task_eager_propagates)
        elif self._is_eager:
            self._is_eager = False
            switch_off()

    def route_of(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> str:
        """The queue that `task_routes` names for a call of a task, else the default."""
        return self._routes.queue_of(name, args, kwargs) or self.task_default_queue

    def ignores_result(self, said: bool | None) -> bool:  # noqa: FBT001 - what a task or a call says
        """Whether a result is dropped; `said`: what the task or the call says of it, None: nothing."""
        return self.task_ignore_result if said is None else bool(said)


_latest: Final[list[Conf]] = [Conf()]


def latest_conf() -> Conf:
    """The settings of the application that was made last: what counts where none is named, as in Celery."""
    return _latest[0]


def make_latest(conf: Conf) -> None:
    """Of an application that was made just now."""
    _latest[0] = conf
