"""HTTP requests: the body is a job, or is mapped; the `Idempotency-Key` header is the request's identity.

A request is checked from the cheap to the costly: who sent it, its method, size and type, and only then is
its body parsed. It is always answered, also when it is refused, in the form that the integration expects:

202 (Accepted): jobs are enqueued, or in the spill queue, and not performed yet, which is what RFC 9110 has it for; 201
would promise a resource with an address. 200: nothing new was to be enqueued, since a request with the same
`Idempotency-Key` had been accepted, or a mapping's filter leaves it out. 409: another request enqueued a job with the
same `dedupe_key`. 422 also: the same `Idempotency-Key` with another body, as the IETF's draft says
(draft-ietf-httpapi-idempotency-key-header). A request that is refused gets a status, and a body of
`application/problem+json` (RFC 9457).
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from kiqbridge import errors
from kiqbridge.aws.plain import trace_attributes
from kiqbridge.aws.record import Delivery, Record, Result, answer_of, ignored
from kiqbridge.aws.sources.reading import text_limit
from kiqbridge.features.http_events import http_request
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity, Source

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


def answered(request: http_request.HttpRequest, results: Sequence[Result]) -> dict[str, Any]:
    """The answer to a request that asked for jobs."""
    [result] = results
    if result.error is not None:
        return refused(request, problem_of(result.error))
    body = answer_of(results)
    known = [job for job in result.jobs if job.duplicate]
    if result.record.fingerprint and any(not _is_of(result.record, job.jid) for job in known):
        detail = "Idempotency-Key: an earlier request with this key had another body; use a new key for a new request"
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


def refused(request: http_request.HttpRequest, problem: HttpProblem) -> dict[str, Any]:
    """The answer to a request that is refused."""
    headers = {"Content-Type": CONTENT_TYPE, **problem.headers}
    return respond(request, problem.status, problem.body(), headers)


def respond(
    request: http_request.HttpRequest,
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
    if request.integration is http_request.Integration.ALB:
        answer["statusDescription"] = f"{status} {HTTPStatus(status).phrase}"
    if request.has_multi_value_headers:  # then a load balancer reads these only
        answer["multiValueHeaders"] = {name: [value] for name, value in headers.items()}
        del answer["headers"]
    return answer


_HEALTH: Final = ("GET", "HEAD")
_LONGEST_KEY: Final = 255
_FINGERPRINT: Final = 8
"""Hex digits of a jid that show the body: 32 bits; another body with the same ones is a matter of luck."""


def read(event: Mapping[str, Any], auth: Sequence[str]) -> Delivery:
    """One record; what is wrong with the request is its error, and so the answer."""
    request = http_request.read_request(event)
    if request.method in _HEALTH:
        return ignored("http", "a health check", respond(request, 200, {"status": "ok"}))
    return Delivery(
        source="http", records=[_record(request, auth)], answer=partial(answered, request)
    )


def failed(event: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """The answer when the function itself fails, for instance because a setting is wrong."""
    return refused(http_request.read_request(event), problem_of(error))


def _record(request: http_request.HttpRequest, auth: Sequence[str]) -> Record:
    about: dict[str, Any] = {
        "source": "http",
        "where": "body",
        "origin": request.route,
        "facets": {
            "method": request.method,
            "path": request.path,
            "stage": request.stage,
            "integration": request.integration.value,
        },
    }
    try:
        caller = require_caller(request, auth)
        _check_method(request.method)
        content = _content(request)
        body = _parsed(content)
        identity = _identity(request, caller)
    except HttpProblem as problem:
        return Record(**about, event={}, error=problem)
    return Record(
        **about,
        event=_shown(request, caller, body),
        job=body,
        identity=identity,
        fingerprint="" if identity is None else _fingerprint(identity, content),
        trace=trace_attributes(
            parent=request.headers.get("traceparent"),
            state=request.headers.get("tracestate"),
            xray=request.headers.get("x-amzn-trace-id"),
        ),
    )


def require_caller(request: http_request.HttpRequest, auth: Sequence[str]) -> http_request.Caller:
    """The caller, if its way of authentication is accepted.

    Raises:
        HttpProblem: 401 if the caller is not verified, 403 if that way is not accepted.
    """
    caller = http_request.find_caller(request)
    if caller is not None and caller.by in auth:
        return caller
    if "none" in auth:
        return caller or http_request.Caller(by="none", name="", claims={})
    accepted = ", ".join(auth)
    if caller is not None:
        raise HttpProblem(
            403,
            f"authentication: the caller was verified by {caller.by}, and KIQBRIDGE_HTTP_AUTH accepts {accepted}",
        )
    raise HttpProblem(
        401,
        "authentication: the sender of this request is not verified; protect the route by IAM, a JWT or "
        f"Cognito authorizer, or a Lambda authorizer that returns a context (accepted here: {accepted})",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _check_method(method: str) -> None:
    if method != "POST":
        raise HttpProblem(
            405,
            f"method: {method[:20]!r} asks for nothing; send jobs by POST",
            headers={"Allow": "POST, GET, HEAD"},
        )


def _shown(
    request: http_request.HttpRequest, caller: http_request.Caller, body: object
) -> dict[str, Any]:
    """What a mapping's expressions see."""
    return {
        "method": request.method,
        "path": request.path,
        "route": request.route,
        "stage": request.stage,
        "headers": dict(request.headers),
        "query": dict(request.query),
        "path_parameters": dict(request.path_parameters),
        "body": body,
        "caller": {"by": caller.by, "name": caller.name, "claims": dict(caller.claims)},
    }


def _content(request: http_request.HttpRequest) -> bytes:
    """The bytes of the body.

    Raises:
        HttpProblem: there is none, it is too large, or of another type than JSON.
    """
    _check_type(request.headers)
    body, most = request.body, text_limit()
    if not isinstance(body, str) or not body:
        raise HttpProblem(
            400, 'body: is missing; send a job such as {"class": "Report", "args": []}'
        )
    size = len(body) * 3 // 4 if request.is_base64 else len(body)
    content = b""
    if not most or size - 2 <= most:  # without two characters that only fill up Base64
        try:
            content = base64.b64decode(body, validate=True) if request.is_base64 else body.encode()
        except (ValueError, binascii.Error) as error:
            raise HttpProblem(400, "body: is not the text that it is declared to be") from error
        size = len(content)
    if most and size > most:
        raise HttpProblem(
            413,
            f"body: {size} bytes are more than the {most} of KIQBRIDGE_MAX_EVENT_BYTES; put the data into S3 "
            "and send its key",
        )
    return content


def _check_type(headers: Mapping[str, str]) -> None:
    kind, *parameters = [
        part.strip().lower() for part in headers.get("content-type", "").split(";")
    ]
    if kind != "application/json" and not kind.endswith("+json"):
        raise HttpProblem(
            415,
            f"content-type: {kind[:80]!r} is not JSON; send application/json",
            headers={"Accept-Post": "application/json"},
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise HttpProblem(415, f"content-type: charset {value[:40]!r} is not UTF-8; send UTF-8")
    if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise HttpProblem(
            415,
            "content-encoding: the body is compressed; send it as it is",
            headers={"Accept-Encoding": "identity"},
        )


def _parsed(content: bytes) -> Any:
    try:
        return json_text.loads(content)
    except ValueError as error:
        raise HttpProblem(400, f"body: is not JSON that Sidekiq would read: {error}") from error


def _identity(request: http_request.HttpRequest, caller: http_request.Caller) -> Identity | None:
    """The identity of a request by its key, within caller and address: no caller can find out another caller's keys."""
    key = request.headers.get("idempotency-key", "").strip()
    if key.startswith('"') and key.endswith('"') and len(key) > 1:
        key = key[1:-1]  # a string of RFC 8941, as the draft has it
    if not key:
        return None
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise HttpProblem(
            400,
            f"Idempotency-Key: is not a printable ASCII text of at most {_LONGEST_KEY} characters",
        )
    return Identity(
        Source.HTTP, (f"{request.method} {request.path}", f"{caller.by} {caller.name}", key)
    )


def _fingerprint(identity: Identity, content: bytes) -> str:
    """The begin of the jids of this request; with the key, so that it shows nothing of a short body."""
    digest = hashlib.sha256("\0".join(identity.parts).encode())
    digest.update(content)
    return digest.hexdigest()[:_FINGERPRINT]
