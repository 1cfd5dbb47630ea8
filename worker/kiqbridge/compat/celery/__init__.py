"""Celery's way of declaring and calling tasks, on Kiqbridge: change the import, keep the tasks.

    from kiqbridge.compat.celery import Celery, shared_task

    @shared_task(bind=True, autoretry_for=(ConnectionError,), retry_backoff=True)
    def fetch(self, url): ...

    fetch.delay("https://example.com")
    fetch.apply_async(("https://example.com",), countdown=60, queue="slow")

A task is a declared job whose wire name is Celery's name of the task, `package.module.function`. What has no
counterpart is refused with what to write in its place; docs/how_to/celery.md lists what is accepted without effect.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kiqbridge.compat.celery import edits
from kiqbridge.compat.celery.app import Celery, current_task, shared_task
from kiqbridge.compat.celery.exceptions import MaxRetriesExceededError, Retry
from kiqbridge.compat.celery.request import Request
from kiqbridge.compat.celery.result import AsyncResult, EagerResult, GroupResult
from kiqbridge.compat.celery.task import Task
from kiqbridge.compat.celery.utils.log import get_task_logger

if TYPE_CHECKING:
    from kiqbridge.features.batches.signatures import Signature, chain, chord, group, signature

_OF_FEATURES: dict[str, str] = {
    "Signature": "kiqbridge.features.batches.signatures",
    "chain": "kiqbridge.features.batches.signatures",
    "chord": "kiqbridge.features.batches.signatures",
    "group": "kiqbridge.features.batches.signatures",
    "signature": "kiqbridge.features.batches.signatures",
}
"""Names that features bring: the module of each."""

__all__ = [
    "AsyncResult", "Celery", "EagerResult", "GroupResult", "MaxRetriesExceededError", "Request",
    "Retry", "Signature", "Task", "chain", "chord", "current_task", "get_task_logger", "group",
    "shared_task", "signature",
]  # fmt: skip

edits.install()


def __getattr__(name: str) -> Any:
    if (home := _OF_FEATURES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found
