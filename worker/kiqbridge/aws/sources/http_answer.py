"""Answers to HTTP requests, in the form that the integration expects.

202 (Accepted): jobs are enqueued, or in the spill queue, and not performed yet, which is what RFC 9110 has it for; 201 would
promise a resource with an address. 200: nothing new was to be enqueued, since a request with the same
`Idempotency-Key` had been accepted, or a mapping's filter leaves it out. 409: another request enqueued a job
with the same `dedupe_key`. 422 also: the same `Idempotency-Key` with another body, as the IETF's draft says
(draft-ietf-httpapi-idempotency-key-header).
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from kiqbridge.aws.record import Record, Result, answer_of
from kiqbridge.aws.sources.http_problem import CONTENT_TYPE, HttpProblem, problem_of
from kiqbridge.aws.sources.http_request import HttpRequest, Integration
from kiqbridge.wire import json_text


def answered(request: HttpRequest, results: Sequence[Result]) -> dict[str, Any]:
    """The answer to a request that asked for jobs."""
    [result] = results
    if result.error is not None:
        return refused(request, problem_of(result.error))
    body = answer_of(results)
    known = [job for job in result.jobs if job.duplicate]
    is_repeatable = result.record.identity is not None
    if result.record.fingerprint and any(not _is_of(result.record, job.jid) for job in known):
        return refused(
            request,
            HttpProblem(
                422,
                "Idempotency-Key: an earlier request with this key had another body; use a new key for a "
                "new request",
                members={**body},
            ),
        )
    if known and len(known) == len(result.jobs) and not is_repeatable:
        return refused(
            request,
            HttpProblem(
                409, "dedupe_key: the job has been enqueued by an earlier request", members={**body}
            ),
        )
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
