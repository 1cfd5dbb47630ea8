"""A backend for Django's own tasks (`django.tasks`, from Django 6.0 on).

    TASKS = {"default": {"BACKEND": "kiqbridge.contrib.django.tasks.KiqbridgeBackend", "QUEUES": []}}

Each task is a job whose class is the task's path, such as `shop.tasks.send_receipt`, and whose arguments
are `[args, kwargs]`. It is declared when its module is imported, so a payload can only reach tasks that the
worker has loaded. The id of its result is the jid; results are not kept.
"""

import inspect
import os
import socket
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

from kiqbridge.client.current import CONTEXT
from kiqbridge.client.declaration import define
from kiqbridge.client.default_client import default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.clock import client_now
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import new_jid, read_timestamp, retries_of, run_time

try:
    from django.core.exceptions import ImproperlyConfigured
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils import timezone
except ImportError as error:
    raise ConfigError(
        "kiqbridge.contrib.django.tasks needs django.tasks, which comes with Django 6.0, for Python 3.12 and "
        "later; install these, or declare jobs with kiqbridge.job, which any Django takes"
    ) from error


class KiqbridgeBackend(BaseTaskBackend):
    """`QUEUES` may be an empty list: any queue. `OPTIONS` takes `retry`, as `kiqbridge.job` does."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = False
    supports_priority = False

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self._retry = self.options.get("retry", True)
        unknown = sorted(set(self.options) - {"retry"})
        if unknown:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: OPTIONS: {unknown[0]!r} is not an option; there is retry"
            )
        if not isinstance(self._retry, bool | int):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: OPTIONS: retry: {self._retry!r} is not True, False or a number"
            )

    def validate_task(self, task: Task) -> None:
        """As Django's own; a task that can be enqueued here is declared as a job besides.

        Raises:
            InvalidTask: it cannot.
        """
        super().validate_task(task)
        try:
            self._declare(task)
        except ConfigError as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Push it; with `ENQUEUE_AFTER_COMMIT` within `atomic`, after the commit.

        Raises:
            InvalidTask: it cannot be enqueued here, or client middleware stopped it.
            PayloadError, RedisUnavailable, PushOutcomeUnknown: as `Client.push`.
        """
        self.validate_task(task)
        result = _result(task, self.alias, jid=new_jid(), args=args, kwargs=kwargs)
        item = {
            "retry": self._retry,
            "queue": task.queue_name,
            "class": task.module_path,
            "args": [result.args, result.kwargs],
            "jid": result.id,
        }
        if task.run_after is not None:
            after = task.run_after
            at = run_time(
                after if timezone.is_aware(after) else timezone.make_aware(after), client_now()
            )
            item |= {} if at is None else {"at": at}
        if default_client().push(item) is None:
            raise InvalidTask(
                f"{task.module_path}: client middleware stopped it; nothing was enqueued"
            )
        _set(result, enqueued_at=timezone.now())
        task_enqueued.send(type(self), task_result=result)
        return result

    def _declare(self, task: Task) -> None:
        name = "perform_async" if inspect.iscoroutinefunction(task.func) else "perform"
        definition = define(
            task.module_path,
            {"retry": self._retry, "queue": task.queue_name},
            task.func,
            {
                "check_arguments": False,
                "retries_exhausted": partial(_exhausted, type(self), task, self.alias),
            },
            perform=getattr(_Run, name),
            instantiate=partial(_Run, type(self), task, self.alias),
            perform_of=attrgetter(name),
            signature=_SIGNATURE,
        )
        known = default_registry.find(task.module_path)
        if known is None or known.is_replaced_by(definition):
            default_registry.register(definition)


class _Run:
    """One execution of a task."""

    def __init__(self, backend: type[KiqbridgeBackend], task: Task, alias: str, jid: str) -> None:
        self.jid = jid
        self._backend = backend
        self._task = task
        self._alias = alias

    def perform(self, args: Any, kwargs: Any) -> Any:
        """Call a plain task."""
        result = self._begin(args, kwargs)
        return self._end(result, self._call(result))

    async def perform_async(self, args: Any, kwargs: Any) -> Any:
        """Await a task that is `async def`."""
        result = self._begin(args, kwargs)
        return self._end(result, await self._call(result))

    def _begin(self, args: Any, kwargs: Any) -> TaskResult:
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise PayloadError(
                f"args: {shorten([args, kwargs])} is not a list of arguments and an object of named "
                "ones, as a Django task has them; enqueue it with its method `enqueue`"
            )
        context = CONTEXT.get()
        payload: Mapping[str, Any] = context[0] if context else {}
        result = _result(self._task, self._alias, jid=self.jid, args=args, kwargs=kwargs)
        now = timezone.now()
        _set(
            result,
            status=TaskResultStatus.RUNNING,
            enqueued_at=_moment(payload.get("enqueued_at")),
            started_at=now,
            last_attempted_at=now,
            worker_ids=_workers(payload),
        )
        task_started.send(sender=self._backend, task_result=result)
        return result

    def _call(self, result: TaskResult) -> Any:
        first = [TaskContext(task_result=result)] if self._task.takes_context else []
        return self._task.func(*first, *result.args, **result.kwargs)

    def _end(self, result: TaskResult, returned: Any) -> Any:
        status, now = TaskResultStatus.SUCCESSFUL, timezone.now()
        _set(result, status=status, finished_at=now, _return_value=returned)
        task_finished.send(self._backend, task_result=result)
        return returned


def _exhausted(
    backend: type[KiqbridgeBackend],
    task: Task,
    alias: str,
    payload: Mapping[str, Any],
    error: BaseException,
) -> None:
    """No tries are left: Django's `task_finished` says that it failed."""
    args, kwargs = (
        payload["args"] if len(payload["args"]) == len(_SIGNATURE.parameters) else ([], {})
    )
    result = _result(task, alias, jid=str(payload.get("jid")), args=args, kwargs=kwargs)
    kind = type(error)
    _set(
        result,
        status=TaskResultStatus.FAILED,
        enqueued_at=_moment(payload.get("enqueued_at")),
        finished_at=timezone.now(),
        worker_ids=_workers(payload),
        errors=[
            TaskError(
                exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
                traceback="".join(traceback.format_exception(error)),
            )
        ],
    )
    task_finished.send(backend, task_result=result)


def _result(
    task: Task, alias: str, *, jid: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TaskResult:
    return TaskResult(
        task=task,
        id=jid,
        status=TaskResultStatus.READY,
        **dict.fromkeys(("enqueued_at", "started_at", "finished_at", "last_attempted_at")),
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _set(result: TaskResult, **values: Any) -> None:
    """Django's results are frozen for tasks; its own backends write them like this."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _moment(value: object) -> datetime | None:
    seconds = read_timestamp(value)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _workers(payload: Mapping[str, Any]) -> list[str]:
    """One entry for each attempt, of which the last is this process; who made the others is not kept."""
    return [*["unknown"] * retries_of(payload), f"{socket.gethostname()}:{os.getpid()}"]


_SIGNATURE = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("args", "kwargs")]
)
