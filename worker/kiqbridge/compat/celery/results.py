"""What Celery's callers see of a job: the request of a running one, and the result of a call."""

import math
from typing import Any

from kiqbridge.client.current import CONTEXT
from kiqbridge.client.results import await_result, fetch_result
from kiqbridge.wire.result import Result


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

    def get(self, timeout: float | None = None, **_options: Any) -> Any:
        """What the task returned; blocks until it has ended.

        Args:
            timeout: seconds, None = for ever.

        Raises:
            JobFailed: it ended without success.
            ResultTimeout: it has not ended, or no result is kept: give the application a `backend`.
            PayloadError: client middleware stopped the push.
        """
        return await_result(self.id or "", timeout_s=math.inf if timeout is None else timeout)

    def ready(self) -> bool:
        """Whether it has ended, as far as its result is kept."""
        return self._found() is not None

    def successful(self) -> bool:
        """Whether it has ended well."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Whether it has ended without success."""
        return self.state == "FAILURE"

    @property
    def state(self) -> str:
        """SUCCESS, FAILURE, or PENDING, which is also said where no result is kept."""
        found = self._found()
        if found is None:
            return "PENDING"
        return "SUCCESS" if found.outcome == "done" else "FAILURE"

    status = state

    @property
    def result(self) -> Any:
        """What the task returned; of a failure the message; None: it has not ended."""
        found = self._found()
        if found is None:
            return None
        return found.value if found.outcome == "done" else f"{found.error}: {found.message}"

    def _found(self) -> Result | None:
        return fetch_result(self.id or "")
