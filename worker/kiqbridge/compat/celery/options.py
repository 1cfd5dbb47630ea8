"""Which of Celery's options mean something here, which need not be said, and which are refused.

An option that is ignored silently costs somebody a night. So each is in one of the tables, or refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.options import unknown_declared

HONOURED: Final = frozenset(
    [
        *("bind", "queue", "autoretry_for", "dont_autoretry_for", "max_retries"),
        *("default_retry_delay", "retry_backoff", "retry_backoff_max", "retry_jitter"),
        *("retry_kwargs", "time_limit", "soft_time_limit", "ignore_result", "expires"),
    ]
)
"""Options of a task that this module translates."""

SENT: Final = frozenset({"countdown", "eta", "expires", "queue", "task_id"})
"""Options of a call that `Task.item` honours."""

_TRANSLATED: Final = frozenset({"name", "retry", "retry_in", "timeout_s"})
"""Options of `job` that are translations of Celery's; its others, such as `cron`, `pool` or `unique`, are taken as they are."""

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
    "link": "use a chain: chain(task.s(…), other.s())",
    "link_error": "use on_death of a Batch of kiqbridge.flow, or server.death_handler",
    "chord": "write group(…) | task.s()",
    "retry_policy": "a push is repeated by the caller; see PushOutcomeUnknown",
    "exchange": "there are queues only; give queue",
    "throws": "use on_error of kiqbridge.job",
    "trail": "there is no trail",
    "serializer": "arguments are JSON, which Ruby can read, too; leave it out",
    "result_backend": "results are kept in the Redis of the jobs; write redis://",
    "result_expires": "each result is kept for a time of at most a year; give seconds, or a timedelta",
    "beat_schedule": "declare its schedules with @app.task(cron=…) or in the template (docs/how_to/celery.md)",
    "task_serializer": "arguments are JSON, which Ruby can read, too; leave it out",
    "accept_content": "arguments are JSON; leave it out",
    "broker_url": "give it to Celery(broker=…), or set REDIS_URL",
    "imports": "write Celery(include=[…])",
    "include": "write Celery(include=[…])",
    "task_annotations": "give the options at the task",
}

OF_TASK: Final[Mapping[str, str]] = {
    "update_state": "write progress where your application keeps it; there are no states of your own",
    "send_event": "use server.on of kiqbridge",
    "replace": "return, and let the next task of a chain do it",
    "add_to_chord": "let the task add to its batch: current_batch().add(…) of kiqbridge.flow",
    "app": "import the application",
    "backend": "ask an AsyncResult",
    "AsyncResult": "import AsyncResult from kiqbridge.compat.celery",
    "chunks": "use perform_bulk of the task's job",
    "map": "use a group",
    "starmap": "use a group",
}
"""Attributes of a bound task that are missing."""

OF_REQUEST: Final[Mapping[str, str]] = {
    "eta": "give the time as an argument",
    "expires": "give the time as an argument",
    "headers": "give it as an argument, or use current attributes (docs/how_to/middleware.md)",
    "root_id": "give an id of your own as an argument",
    "parent_id": "give an id of your own as an argument",
    "correlation_id": "use request.id",
    "reply_to": "results are kept in Redis",
    "group": "ask current_batch() of kiqbridge.flow",
    "chord": "ask current_batch() of kiqbridge.flow",
    "timelimit": "it is declared at the task",
    "origin": "give it as an argument",
    "callbacks": "use a chain",
    "errbacks": "use server.death_handler",
    "stamps": "use current attributes",
}
"""Attributes of a request that are missing."""


def check_task(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options of a task that have no counterpart.

    Raises:
        ConfigError: names the option, and what to write in its place.
    """
    for option, value in options.items():
        if option in HONOURED or value in IMPLIED.get(option, ()) or is_ours(option):
            continue
        raise ConfigError(
            f"task {name}: {option}={value!r} has no counterpart here: {instead_of(option)}"
        )


def is_ours(option: str) -> bool:
    """Whether this option of `job` is taken by a task as well."""
    taken = option not in HONOURED and option not in INSTEAD and option not in _TRANSLATED
    return taken and unknown_declared([option]) is None


def instead_of(option: str) -> str:
    """What to write in the place of an option that has no counterpart."""
    return INSTEAD.get(option, "leave it out, or see the options of kiqbridge.job")


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
