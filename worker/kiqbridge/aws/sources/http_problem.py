"""What an HTTP request is refused with: a status, and a body of `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from kiqbridge.errors import (
    EventError,
    NotAllowed,
    PayloadError,
    PushNotReplicated,
    PushOutcomeUnknown,
    QueueTooDeep,
    RedisUnavailable,
)

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 5
"""For Redis away: a failover of ElastiCache takes some seconds, a restart of a server as well."""
RETRY_AFTER_DEEP_S: Final = 30
"""For a queue at its limit, which workers have to shorten first."""


class HttpProblem(EventError):  # noqa: N818 - the word of RFC 9457
    """A request that is refused with a certain status.

    Attributes:
        status: of the answer.
        headers: of the answer, besides the content type.
        members: of the body, besides status, title and detail.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}
        self.members = members or {}

    def body(self) -> dict[str, Any]:
        """The problem's details."""
        title = HTTPStatus(self.status).phrase
        return {"title": title, "status": self.status, "detail": str(self), **self.members}


def problem_of(error: Exception) -> HttpProblem:
    """The problem with which a failed record is answered.

    What the caller can put right is described as it is. What concerns the server (its address, an
    unexpected error) is only in the log.
    """
    if isinstance(error, HttpProblem):
        return error
    made = _of_caller(error) or _of_server(error)
    return made or HttpProblem(
        500, "The request could not be handled; the function's log has the reason"
    )


def _of_caller(error: Exception) -> HttpProblem | None:
    if isinstance(error, NotAllowed):
        return HttpProblem(403, str(error))
    if isinstance(error, EventError | PayloadError):
        return HttpProblem(422, str(error))
    return None


def _of_server(error: Exception) -> HttpProblem | None:
    if isinstance(error, QueueTooDeep):
        return HttpProblem(429, str(error), headers={"Retry-After": str(RETRY_AFTER_DEEP_S)})
    if isinstance(error, RedisUnavailable):
        return HttpProblem(
            503,
            "Redis cannot be reached; nothing was enqueued. Send the request again later",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
    if isinstance(error, PushOutcomeUnknown):
        return HttpProblem(
            504,
            "The reply of Redis was lost: the job may be enqueued, or not. A request with the header "
            "Idempotency-Key can be repeated safely, this one had none",
            members={"jid": error.jid},
        )
    if isinstance(error, PushNotReplicated):
        return HttpProblem(
            504,
            "The jobs are enqueued, but fewer replicas than asked for have confirmed it; do not repeat "
            "the request",
            members={"jids": error.jids},
        )
    return None
