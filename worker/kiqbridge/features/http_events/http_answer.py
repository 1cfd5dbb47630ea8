"""Answers to HTTP requests, in the form that the integration expects.

202 (Accepted): jobs are enqueued, or in the spill queue, and not performed yet, which is what RFC 9110 has it for; 201 would
promise a resource with an address. 200: nothing new was to be enqueued, since a request with the same
`Idempotency-Key` had been accepted, or a mapping's filter leaves it out. 409: another request enqueued a job
with the same `dedupe_key`. 422 also: the same `Idempotency-Key` with another body, as the IETF's draft says
(draft-ietf-httpapi-idempotency-key-header).

A request that is refused gets a status, and a body of `application/problem+json` (RFC 9457).
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from kiqbridge import errors
from kiqbridge.aws.record import Record, Result, answer_of
from kiqbridge.features.http_events.http_request import HttpRequest, Integration
from kiqbridge.wire import json_text

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 5
"""For Redis away: a failover of ElastiCache takes some seconds, a restart of a server as well."""
RETRY_AFTER_DEEP_S: Final = 30
"""For a queue at its limit, which workers have to shorten first."""


_UNEXPECTED: Final = "The request could not be handled; the function's log has the reason"
_AWAY: Final = "Redis cannot be reached; nothing was enqueued. Send the request again later"
_REPLY_LOST: Final = (
    "The reply of Redis was lost: the job may be enqueued, or not. A request with the header Idempotency-Key "
    "can be repeated safely, this one had none"
)
_NOT_REPLICATED: Final = "The jobs are enqueued, but fewer replicas than asked for have confirmed it; do not repeat the request"


class HttpProblem(errors.EventError):
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
    if isinstance(error, errors.NotAllowed):
        return HttpProblem(403, str(error))
    if isinstance(error, errors.EventError | errors.PayloadError):
        return HttpProblem(422, str(error))
    if isinstance(error, errors.QueueTooDeep):
        return HttpProblem(429, str(error), headers={"Retry-After": str(RETRY_AFTER_DEEP_S)})
    status, detail = 500, _UNEXPECTED
    headers: dict[str, str] = {}
    members: dict[str, Any] = {}
    if isinstance(error, errors.RedisUnavailable):
        status, detail, headers = 503, _AWAY, {"Retry-After": str(RETRY_AFTER_S)}
    elif isinstance(error, errors.PushOutcomeUnknown):
        status, detail, members = 504, _REPLY_LOST, {"jid": error.jid}
    elif isinstance(error, errors.PushNotReplicated):
        status, detail, members = 504, _NOT_REPLICATED, {"jids": error.jids}
    return HttpProblem(status, detail, headers=headers, members=members)


def answered(request: HttpRequest, results: Sequence[Result]) -> dict[str, Any]:
    """The answer to a request that asked for jobs."""
    [result] = results
    if result.error is not None:
        return refused(request, problem_of(result.error))
    body = answer_of(results)
    known = [job for job in result.jobs if job.duplicate]
    if result.record.fingerprint and any(not _is_of(result.record, job.jid) for job in known):
        detail = (
            "Idempotency-Key: an earlier request with this key had another body; use a new key for a "
            "new request"
        )
        return refused(request, HttpProblem(422, detail, members={**body}))
    if known and len(known) == len(result.jobs) and result.record.identity is None:
        detail = "dedupe_key: the job has been enqueued by an earlier request"
        return refused(request, HttpProblem(409, detail, members={**body}))
    is_new = len(known) < len(result.jobs) or bool(result.spilled)
    return respond(request, 202 if is_new else 200, {**body})


def _is_of(record: Record, jid: str) -> bool:
    """Whether a job in Redis was made of the same content as this record, see `Record.fingerprint`."""
    body = record.job if isinstance(record.job, Mapping) else {}
    items = body["jobs"] if isinstance(body.get("jobs"), list) else [body]
    own = [item.get("jid") for item in items if isinstance(item, Mapping)]
    return jid.startswith(record.fingerprint) or jid in own


def refused(request: HttpRequest, problem: HttpProblem) -> dict[str, Any]:
    """The answer to a request that is refused."""
    headers = {"Content-Type": CONTENT_TYPE, **problem.headers}
    return respond(request, problem.status, problem.body(), headers)


def respond(
    request: HttpRequest,
    status: int,
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """An answer with a JSON body, which one to HEAD leaves out."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})}
    answer: dict[str, Any] = {
        "statusCode": status,
        "headers": headers,
        "body": "" if request.method == "HEAD" else json_text.dumps(body).decode(),
        "isBase64Encoded": False,
    }
    if request.integration is Integration.ALB:
        answer["statusDescription"] = f"{status} {HTTPStatus(status).phrase}"
    if request.has_multi_value_headers:  # then a load balancer reads these only
        answer["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        del answer["headers"]
    return answer
