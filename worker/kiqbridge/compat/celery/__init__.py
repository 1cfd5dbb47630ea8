"""Celery's way of declaring and calling tasks, on Kiqbridge: change the import, keep the tasks.

    from kiqbridge.compat.celery import Celery, shared_task

    @shared_task(bind=True, autoretry_for=(ConnectionError,), retry_backoff=True)
    def fetch(self, url): ...

    fetch.delay("https://example.com")
    fetch.apply_async(("https://example.com",), countdown=60, queue="slow")

A task is a declared job whose wire name is Celery's name of the task, `package.module.function`. What has no
counterpart is refused with what to write in its place; docs/how_to/migrate.md lists what is accepted without effect.
"""

from kiqbridge.compat.celery.app import Celery, current_task, shared_task
from kiqbridge.compat.celery.exceptions import MaxRetriesExceededError, Retry
from kiqbridge.compat.celery.request import Request
from kiqbridge.compat.celery.result import AsyncResult, EagerResult
from kiqbridge.compat.celery.task import Task
from kiqbridge.compat.celery.utils.log import get_task_logger

__all__ = [
    "AsyncResult",
    "Celery",
    "EagerResult",
    "MaxRetriesExceededError",
    "Request",
    "Retry",
    "Task",
    "current_task",
    "get_task_logger",
    "shared_task",
]
