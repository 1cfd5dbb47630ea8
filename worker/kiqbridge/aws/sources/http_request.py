"""One form for the requests of API Gateway (REST and HTTP API), Function URLs and load balancers.

Payload formats:
- REST API and format 1.0: docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
- HTTP API, format 2.0: …/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
- Function URL, format 2.0 too: docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
- load balancer: docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
Whatever is missing or of another type counts as empty: a request is always answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus


class Integration(StrEnum):
    """Who passes the request on, and so the form of the answer."""

    REST = "rest-api"
    HTTP_API = "http-api"
    FUNCTION_URL = "function-url"
    ALB = "alb"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, whoever passed it on.

    Attributes:
        integration: who passed it on.
        method: in upper case.
        path: as it was sent, without the stage.
        route: the route that matched, such as `POST /jobs/{id}`; method and path if there is none.
        stage: API Gateway's; "" elsewhere.
        headers: names in lower case; several of one name are joined by a comma.
        query: the last value of each name.
        path_parameters: what the route's placeholders matched.
        body: as it came; None = there is none.
        is_base64: the body is in Base64.
        context: `requestContext`, in which the integration says who the caller is.
        has_multi_value_headers: the load balancer wants headers of answers as lists, too.
    """

    integration: Integration
    method: str
    path: str
    route: str
    stage: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    path_parameters: Mapping[str, str]
    body: object
    is_base64: bool
    context: Mapping[str, Any]
    has_multi_value_headers: bool


def read_request(event: Mapping[str, Any]) -> HttpRequest:
    """The normal form of an event for which `sources.is_http` is true; it raises nothing."""
    context = _mapping(event.get("requestContext"))
    integration = _integration(context)
    http = _mapping(context.get("http"))
    method = (_text(http.get("method")) or _text(event.get("httpMethod"))).upper()
    stage = _text(context.get("stage"))
    path = _text(event.get("rawPath")) or _text(event.get("path")) or "/"
    if "http" in context and stage != "$default":
        path = path.removeprefix(f"/{stage}") or "/"
    return HttpRequest(
        integration=integration,
        method=method,
        path=path,
        route=_route(event, context, method, path),
        stage="" if stage == "$default" else stage,
        headers=_headers(event),
        query=_query(event, is_encoded=integration is Integration.ALB),
        path_parameters=_texts(event.get("pathParameters")),
        body=event.get("body"),
        is_base64=event.get("isBase64Encoded") is True,
        context=context,
        has_multi_value_headers=integration is Integration.ALB and "multiValueHeaders" in event,
    )


def _integration(context: Mapping[str, Any]) -> Integration:
    if "elb" in context:
        return Integration.ALB
    if "http" not in context:
        return Integration.REST
    host = _text(context.get("domainName"))
    return Integration.FUNCTION_URL if ".lambda-url." in host else Integration.HTTP_API


def _route(event: Mapping[str, Any], context: Mapping[str, Any], method: str, path: str) -> str:
    """API Gateway's own name of the route; a catch-all route says less than the path."""
    key = _text(event.get("routeKey"))
    resource = _text(event.get("resource")) or _text(context.get("resourcePath"))
    if key and key != "$default":
        return f"{method} {key[4:]}" if key.startswith("ANY ") else key
    if resource and "+}" not in resource:
        return f"{method} {resource}"
    return f"{method} {path}"


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    found = {name.lower(): value for name, value in _texts(event.get("headers")).items()}
    for name, values in _mapping(event.get("multiValueHeaders")).items():
        if isinstance(values, Sequence) and not isinstance(values, str):
            found[str(name).lower()] = ", ".join(each for each in values if isinstance(each, str))
    return found


def _query(event: Mapping[str, Any], *, is_encoded: bool) -> dict[str, str]:
    """The last value of each name; a load balancer passes names and values as they were sent."""
    found = _texts(event.get("queryStringParameters"))
    for name, values in _mapping(event.get("multiValueQueryStringParameters")).items():
        if isinstance(values, list) and values and isinstance(values[-1], str):
            found[str(name)] = values[-1]
    if is_encoded:
        return {unquote_plus(name): unquote_plus(value) for name, value in found.items()}
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(name): each for name, each in _mapping(value).items() if isinstance(each, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
