"""One form for the requests of API Gateway (REST and HTTP API), Function URLs and load balancers.

Payload formats:
- REST API and format 1.0: docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
- HTTP API, format 2.0: …/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
- Function URL, format 2.0 too: docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
- load balancer: docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
Whatever is missing or of another type counts as empty: a request is always answered.

Who sent a request is known as far as the service that passed it on has verified that. Only `requestContext`
counts: API Gateway and Lambda write it, a caller cannot. Headers prove nothing here: those of a load
balancer's OIDC login (`x-amzn-oidc-data`) are signed, but checking that takes a key from the internet and
elliptic-curve code at each cold start, so they are not looked at. An API key proves nothing, either: AWS says
that it identifies a usage plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus

from kiqbridge.aws.sources.reading import mapping_or_empty


class Integration(StrEnum):
    """Who passes the request on, and so the form of the answer."""

    REST = "rest-api"
    HTTP_API = "http-api"
    FUNCTION_URL = "function-url"
    ALB = "alb"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, in one form for all services that pass it on.

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
    context = mapping_or_empty(event.get("requestContext"))
    integration = _integration(context)
    http = mapping_or_empty(context.get("http"))
    method = (_text(http.get("method")) or _text(event.get("httpMethod"))).upper()
    stage = _text(context.get("stage"))
    path = _text(event.get("rawPath")) or _text(event.get("path")) or "/"
    if "http" in context and stage != "$default":
        path = path.removeprefix(f"/{stage}") or "/"
    found = {name.lower(): value for name, value in _texts(event.get("headers")).items()}
    for name, values in mapping_or_empty(event.get("multiValueHeaders")).items():
        if isinstance(values, Sequence) and not isinstance(values, str):
            found[str(name).lower()] = ", ".join(each for each in values if isinstance(each, str))
    return HttpRequest(
        integration=integration,
        method=method,
        path=path,
        route=_route(event, context, method, path),
        stage="" if stage == "$default" else stage,
        headers=found,
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


def _query(event: Mapping[str, Any], *, is_encoded: bool) -> dict[str, str]:
    """The last value of each name; a load balancer passes names and values as they were sent."""
    found = _texts(event.get("queryStringParameters"))
    for name, values in mapping_or_empty(event.get("multiValueQueryStringParameters")).items():
        if isinstance(values, list) and values and isinstance(values[-1], str):
            found[str(name)] = values[-1]
    if is_encoded:
        return {unquote_plus(name): unquote_plus(value) for name, value in found.items()}
    return found


def _texts(value: object) -> dict[str, str]:
    found = mapping_or_empty(value)
    return {str(name): each for name, each in found.items() if isinstance(each, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who it is.

    Attributes:
        by: how that was verified: `iam` (signed with AWS credentials; API Gateway or the Function URL has
            checked that), `jwt` (a token that API Gateway verified: a JWT authorizer, or a Cognito user pool),
            `authorizer` (a Lambda authorizer let it pass, and says who it is), `alb` (it came through a load
            balancer, whose rules authenticate; nothing in the event proves it), or `none`: anybody.
        name: the same for the same caller at each request, and for no other of this kind.
        claims: what was verified about it, for mappings.
    """

    by: str
    name: str
    claims: Mapping[str, Any]


def find_caller(request: HttpRequest) -> Caller | None:
    """The caller that the integration has verified; None = there is none."""
    context = request.context
    if request.integration is Integration.ALB:
        arn = mapping_or_empty(context.get("elb")).get("targetGroupArn")
        return Caller(by="alb", name=str(arn), claims={})
    authorizer = mapping_or_empty(context.get("authorizer"))
    if request.integration is Integration.REST:
        return _of_rest(mapping_or_empty(context.get("identity")), authorizer)
    return _of_version_2(authorizer)


def _of_rest(identity: Mapping[str, Any], authorizer: Mapping[str, Any]) -> Caller | None:
    if claims := mapping_or_empty(authorizer.get("claims")):
        return _of_claims(claims)
    if principal := _text(authorizer.get("principalId")):
        return Caller(by="authorizer", name=principal, claims=authorizer)
    if not _text(identity.get("userArn")) or not _text(identity.get("accountId")):
        return None
    if identity.get("cognitoAuthenticationType") == "unauthenticated":
        return None  # an identity pool gives credentials to anybody who asks
    if pooled := _text(identity.get("cognitoIdentityId")):
        return Caller(by="iam", name=pooled, claims=identity)
    return _of_iam(identity, identity.get("user") or identity.get("caller"))


def _of_version_2(authorizer: Mapping[str, Any]) -> Caller | None:
    if claims := mapping_or_empty(mapping_or_empty(authorizer.get("jwt")).get("claims")):
        return _of_claims(claims)
    if context := mapping_or_empty(authorizer.get("lambda")):
        name = context.get("principalId") or context.get("sub") or _fingerprint(context)
        return Caller(by="authorizer", name=str(name), claims=context)
    iam = mapping_or_empty(authorizer.get("iam"))
    if not _text(iam.get("userArn")) or not _text(iam.get("accountId")):
        return None
    if pooled := mapping_or_empty(iam.get("cognitoIdentity")):
        methods = pooled.get("amr")
        if not isinstance(methods, list) or "authenticated" not in methods:
            return None
        return Caller(by="iam", name=str(pooled.get("identityId")), claims=iam)
    return _of_iam(iam, iam.get("userId") or iam.get("callerId"))


def _of_claims(claims: Mapping[str, Any]) -> Caller:
    subject = claims.get("sub") or claims.get("client_id") or _fingerprint(claims)
    return Caller(by="jwt", name=f"{claims.get('iss', '')} {subject}", claims=claims)


def _of_iam(claims: Mapping[str, Any], user: object) -> Caller:
    """A role is one caller in all its sessions: `AROA…:SESSION` differs at each of them."""
    return Caller(
        by="iam", name=f"{claims.get('accountId')} {str(user).partition(':')[0]}", claims=claims
    )


def _fingerprint(claims: Mapping[str, Any]) -> str:
    """A fingerprint of claims that name no user, made of the claims that stay the same from one token to the next."""
    passing = ("exp", "iat", "nbf", "jti", "auth_time", "integrationLatency")
    return repr(sorted((str(k), str(v)) for k, v in claims.items() if k not in passing))
