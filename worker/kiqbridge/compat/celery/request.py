"""What a task knows of its call: `self.request` and `current_task.request`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kiqbridge.client.current import CONTEXT


class Request:
    """A call of a task.

    Attributes:
        id: the jid, or None.
        task: name of the task, or None: none runs here.
        retries: how often it was tried again.
        args: its arguments; of a job, those that were given by keyword included.
        kwargs: of a function that is called directly; of a job empty, since arguments travel by position.
        delivery_info: `{"routing_key": QUEUE}` of a job.
        is_eager: whether it runs at once, in the caller.
        called_directly: whether it is no job: the function is called, or nothing runs here.
        has_begun: whether the function was called.
    """

    def __init__(
        self,
        task: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - Celery's name
        retries: int = 0,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        queue: str = "",
        is_eager: bool = False,
    ) -> None:
        self.id = id
        self.task = task
        self.retries = retries
        self.args = list(args)
        self.kwargs = dict(kwargs or {})
        self.delivery_info = {"routing_key": queue} if queue else {}
        self.is_eager = is_eager
        self.called_directly = id is None
        self.has_begun = False

    def __repr__(self) -> str:
        return f"<Request {self.task} {self.id}, retries {self.retries}>"


_CALLED: ContextVar[Request | None] = ContextVar("kiqbridge_celery_request", default=None)
"""A call that no worker makes."""


@contextmanager
def called(request: Request) -> Iterator[Request]:
    """Make this the current request."""
    token = _CALLED.set(request)
    try:
        yield request
    finally:
        _CALLED.reset(token)


def current_request() -> Request:
    """Of the innermost call, else of the job that a worker performs here; an empty one outside of both."""
    request = _CALLED.get()
    if request is not None:
        return request
    payload, queue = CONTEXT.get() or ({}, "")
    count = payload.get("retry_count")
    return Request(
        payload.get("class"),
        id=payload.get("jid"),
        retries=count + 1 if isinstance(count, int) else 0,
        args=payload.get("args", ()),
        queue=queue,
    )
