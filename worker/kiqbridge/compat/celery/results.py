"""What Celery's callers see of a job: the request of a running one, and the result of a call, which is its id."""

from typing import Any, NoReturn

from kiqbridge.client.current import CONTEXT
from kiqbridge.errors import ConfigError


class Request:
    """What `self.request` and `current_task.request` say of the running job; empty outside of one.

    Attributes:
        id: its jid, or None.
        retries: how often it was tried again.
        args: its arguments, those that were given by keyword included.
        kwargs: always empty: arguments travel by position.
        delivery_info: `{"routing_key": QUEUE}`.
        is_eager: whether it runs in the calling process.
    """

    def __init__(self) -> None:
        payload, queue = CONTEXT.get() or ({}, "")
        count = payload.get("retry_count")
        self.id: str | None = payload.get("jid")
        self.task: str | None = payload.get("class")
        self.retries = count + 1 if isinstance(count, int) else 0
        self.args: list[Any] = list(payload.get("args", ()))
        self.kwargs: dict[str, Any] = {}
        self.delivery_info = {"routing_key": queue} if queue else {}
        self.is_eager = CONTEXT.get() is None

    def __repr__(self) -> str:
        return f"<Request {self.task} {self.id}, retries {self.retries}>"


class AsyncResult:
    """A job that was enqueued; Celery's name of it.

    Attributes:
        id: its jid; None if client middleware stopped the push.
    """

    def __init__(self, id: str | None) -> None:  # noqa: A002 - Celery's name
        self.id = id

    @property
    def task_id(self) -> str | None:
        """The jid."""
        return self.id

    def __repr__(self) -> str:
        return f"<AsyncResult {self.id}>"

    def __str__(self) -> str:
        return str(self.id)

    def get(self, *_args: Any, **_options: Any) -> NoReturn:
        """Results are not kept here.

        Raises:
            ConfigError: always; says what to do.
        """
        raise ConfigError(
            f"the result of {self.id} is not kept for AsyncResult.get(). Write what the caller needs to your "
            "database, or enqueue the next job at the end of this one"
        )

    def forget(self) -> None:
        """Nothing is kept, so there is nothing to forget."""
