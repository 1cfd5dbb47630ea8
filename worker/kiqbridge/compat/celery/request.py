"""What a task knows of its call: `self.request` and `current_task.request`."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from kiqbridge.client.current import CONTEXT, INLINE
from kiqbridge.compat.celery.exceptions import Retry
from kiqbridge.compat.celery.options import OF_REQUEST
from kiqbridge.wire.payload import retries_of


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
        hostname: of this machine.
        called_directly: whether it is no job: the function is called, or nothing runs here.
        has_begun: whether the function was called.
        again: what `retry(throw=False)` has returned: the job is tried again when its function has ended.
        most: `max_retries` of a call of `retry`, or None: the task's counts.
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
        self.again: Retry | None = None
        self.most: int | None = None

    @property
    def hostname(self) -> str:
        """Of this machine."""
        return socket.gethostname()

    def __getattr__(self, name: str) -> NoReturn:
        hint = OF_REQUEST.get(name)
        said = f" here: {hint}" if hint else ""
        raise AttributeError(f"request.{name} has no counterpart{said}")

    def __repr__(self) -> str:
        return f"<Request {self.task} {self.id}, retries {self.retries}>"


_FINAL: Final = "__kiqbridge_final__"
"""Attribute of an error: the jid of the job for which it is final. One error may be raised by several jobs."""

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


@contextmanager
def performed() -> Iterator[None]:
    """Around the function of a job: it has one request, and ends with the Retry that it has asked for.

    Raises:
        Retry: the function has called `retry(throw=False)`, and has ended, be it with an error.
        BaseException: what the function raised, noted as final if `retry(max_retries=…)` leaves no more tries.
    """
    request = _CALLED.get()
    if request is None or request.has_begun or request.called_directly:  # that is the caller's
        request = _request_of_job()
    request.has_begun = True
    with called(request):
        try:
            yield
        except Exception as error:
            if isinstance(error, Retry):
                raise
            if request.again is not None:
                raise request.again from error
            if request.most is not None and request.retries >= request.most:
                vars(error)[_FINAL] = request.id
            raise
        if request.again is not None:
            raise request.again


def is_final(error: BaseException, jid: object) -> bool:
    """Whether `performed` has noted an error of this job as final."""
    return _FINAL in vars(error) and vars(error)[_FINAL] == jid


def current_request() -> Request:
    """Of the innermost call, else of the job that a worker performs here; an empty one outside of both."""
    return _CALLED.get() or _request_of_job()


def _request_of_job() -> Request:
    payload, queue = INLINE.get() or CONTEXT.get() or ({}, "")
    return Request(
        payload.get("class"),
        id=payload.get("jid"),
        retries=retries_of(payload),
        args=payload.get("args", ()),
        queue=queue,
    )
