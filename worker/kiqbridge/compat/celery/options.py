"""Which of Celery's options and settings mean something here, which need not be said, and which are refused.

An option that is ignored silently costs somebody a night. So each is in one of the tables, or refused.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kiqbridge.errors import ConfigError, PayloadError

if TYPE_CHECKING:
    from datetime import timedelta

HONOURED: Final = frozenset(
    [
        "bind",
        "queue",
        "autoretry_for",
        "dont_autoretry_for",
        "max_retries",
        "default_retry_delay",
        "retry_backoff",
        "retry_backoff_max",
        "retry_jitter",
        "retry_kwargs",
        "time_limit",
        "soft_time_limit",
        "ignore_result",
    ]
)
"""Options of a task that this module translates."""

IMPLIED: Final[Mapping[str, tuple[object, ...]]] = {
    "acks_late": (True, False),
    "reject_on_worker_lost": (True, False),
    "store_errors_even_if_ignored": (False,),
    "track_started": (True, False),
    "serializer": ("json",),
    "compression": (None,),
}
"""Options with the values that say what holds here anyway: no job is lost with its worker, JSON, no results."""

INSTEAD: Final[Mapping[str, str]] = {
    "rate_limit": "use a limiter of kiqbridge.flow",
    "base": "a task's class cannot be replaced; use server.middleware and server.lifespan",
    "typing": "arguments are always checked",
    "priority": "use queues with weights (kiqbridge worker -q high,3 -q low,1)",
    "link": "use chain of kiqbridge.flow",
    "link_error": "use on_death of a Batch of kiqbridge.flow, or server.death_handler",
    "chord": "use group of kiqbridge.flow",
    "retry_policy": "a push is repeated by the caller; see PushOutcomeUnknown",
    "exchange": "there are queues only; give queue",
    "throws": "use on_error of kiqbridge.job",
    "trail": "there is no trail",
    "serializer": "arguments are JSON, which Ruby can read, too; leave it out",
    "result_backend": "results are kept in the Redis of the jobs; write redis://",
    "result_expires": "each result is kept for a time of at most a year; give seconds, or a timedelta",
    "beat_schedule": "declare its schedules with @job(cron=…) or in the template (docs/how_to/migrate.md)",
    "task_serializer": "arguments are JSON, which Ruby can read, too; leave it out",
    "accept_content": "arguments are JSON; leave it out",
    "broker_url": "give it to Celery(broker=…), or set REDIS_URL",
    "imports": "write Celery(include=[…])",
    "include": "write Celery(include=[…])",
    "task_annotations": "give the options at the task",
}

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
        task_routes: pattern of names → `{"queue": NAME}`, or the name.
        task_always_eager: run each call at once, in the caller, as tests like it.
        task_eager_propagates: raise the error of such a call in its place; else it is in the result.
        result_backend: an address of Redis: results are kept, in the Redis of the jobs; None: they are not.
        result_expires: seconds, or a timedelta, for which they are; a day.
        task_ignore_result: keep none unless a task says `ignore_result=False`.
    """

    OWN: ClassVar = frozenset(
        [
            "task_default_queue",
            "task_routes",
            "task_always_eager",
            "task_eager_propagates",
            "result_backend",
            "result_expires",
            "task_ignore_result",
        ]
    )

    def __init__(self) -> None:
        self.task_default_queue = "default"
        self.task_routes: Mapping[str, Any] = {}
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
        else:
            is_kept = name in self.OWN
        if is_kept:
            object.__setattr__(self, name, value)
            return
        if name == "accept_content" and set(value) == {"json"}:
            return
        if value in _IMPLIED_SETTINGS.get(name, ()):
            return
        hint = INSTEAD.get(name, "see docs/reference/settings.md for what a worker takes")
        raise ConfigError(f"conf.{name}: {value!r} has no counterpart here: {hint}")

    def route_of(self, name: str) -> str:
        """The queue that `task_routes` names for a task, else the default."""
        for pattern, route in self.task_routes.items():
            if fnmatchcase(name, pattern):
                queue = route.get("queue") if isinstance(route, Mapping) else route
                if queue:
                    return str(queue)
        return self.task_default_queue

    def ignores_result(self, said: bool | None) -> bool:  # noqa: FBT001 - what a task or a call says
        """Whether a result is dropped; `said`: what the task or the call says of it, None: nothing."""
        return self.task_ignore_result if said is None else bool(said)


def check_task(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options of a task that have no counterpart.

    Raises:
        ConfigError: names the option, and what to write in its place.
    """
    for option, value in options.items():
        if option in HONOURED or value in IMPLIED.get(option, ()):
            continue
        hint = INSTEAD.get(option, "leave it out, or see the options of kiqbridge.job")
        raise ConfigError(f"task {name}: {option}={value!r} has no counterpart here: {hint}")


def check_call(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options of a call that have no counterpart.

    Raises:
        PayloadError: names the option, and what to write in its place.
    """
    for option, value in options.items():
        if option in ("routing_key", "ignore_result", "retry", "add_to_parent") or value is None:
            continue
        if value in IMPLIED.get(option, ()):
            continue
        hint = INSTEAD.get(option, "leave it out, or see the options of set() in kiqbridge.job")
        raise PayloadError(f"{name}: {option}={value!r} has no counterpart here: {hint}")


_latest: Final[list[Conf]] = [Conf()]


def latest_conf() -> Conf:
    """The settings of the application that was made last: what counts where none is named, as in Celery."""
    return _latest[0]


def make_latest(conf: Conf) -> None:
    """Of an application that was made just now."""
    _latest[0] = conf
