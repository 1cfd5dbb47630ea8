"""Who sent an HTTP request, as far as the service that passed it on has verified that.

Only `requestContext` counts: API Gateway and Lambda write it, a caller cannot. Headers prove nothing here:
those of a load balancer's OIDC login (`x-amzn-oidc-data`) are signed, but checking that takes a key from
the internet and elliptic-curve code at each cold start, so they are not looked at. Nor is an API key a
proof: AWS says that it identifies a usage plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kiqbridge.aws.sources import http_rules
from kiqbridge.aws.sources.http_problem import HttpProblem
from kiqbridge.aws.sources.http_request import HttpRequest, Integration
from kiqbridge.aws.sources.http_rules import HttpRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who it is.

    Attributes:
        by: how that was verified, one of the words of `http_rules`.
        name: the same for the same caller at each request, and for no other of this kind.
        claims: what was verified about it, for mappings.
    """

    by: str
    name: str
    claims: Mapping[str, Any]


def require_caller(request: HttpRequest, rules: HttpRules) -> Caller:
    """The caller, if its way of authentication is accepted.

    Raises:
        HttpProblem: 401 if nobody verified who it is, 403 if that way is not accepted.
    """
    caller = find_caller(request)
    if caller is not None and caller.by in rules.auth:
        return caller
    if http_rules.NONE in rules.auth:
        return caller or Caller(by=http_rules.NONE, name="", claims={})
    accepted = ", ".join(rules.auth)
    if caller is not None:
        raise HttpProblem(
            403,
            f"authentication: the caller was verified by {caller.by}, and KIQBRIDGE_HTTP_AUTH accepts "
            f"{accepted}",
        )
    raise HttpProblem(
        401,
        "authentication: nobody has verified who sent this request; protect the route by IAM, a JWT or "
        f"Cognito authorizer, or a Lambda authorizer that returns a context (accepted here: {accepted})",
        headers={"WWW-Authenticate": "Bearer"},
    )


def find_caller(request: HttpRequest) -> Caller | None:
    """The caller whom the integration has verified; None = there is none."""
    context = request.context
    if request.integration is Integration.ALB:
        arn = _mapping(context.get("elb")).get("targetGroupArn")
        return Caller(by=http_rules.ALB, name=str(arn), claims={})
    authorizer = _mapping(context.get("authorizer"))
    if request.integration is Integration.REST:
        return _of_rest(_mapping(context.get("identity")), authorizer)
    return _of_version_2(authorizer)


def _of_rest(identity: Mapping[str, Any], authorizer: Mapping[str, Any]) -> Caller | None:
    if claims := _mapping(authorizer.get("claims")):
        return _of_claims(claims)
    if principal := _text(authorizer.get("principalId")):
        return Caller(by=http_rules.AUTHORIZER, name=principal, claims=authorizer)
    if not _text(identity.get("userArn")) or not _text(identity.get("accountId")):
        return None
    if identity.get("cognitoAuthenticationType") == "unauthenticated":
        return None  # an identity pool gives credentials to anybody who asks
    if pooled := _text(identity.get("cognitoIdentityId")):
        return Caller(by=http_rules.IAM, name=pooled, claims=identity)
    return _of_iam(identity, identity.get("user") or identity.get("caller"))


def _of_version_2(authorizer: Mapping[str, Any]) -> Caller | None:
    if claims := _mapping(_mapping(authorizer.get("jwt")).get("claims")):
        return _of_claims(claims)
    if context := _mapping(authorizer.get("lambda")):
        name = context.get("principalId") or context.get("sub") or _fingerprint(context)
        return Caller(by=http_rules.AUTHORIZER, name=str(name), claims=context)
    iam = _mapping(authorizer.get("iam"))
    if not _text(iam.get("userArn")) or not _text(iam.get("accountId")):
        return None
    if pooled := _mapping(iam.get("cognitoIdentity")):
        methods = pooled.get("amr")
        if not isinstance(methods, list) or "authenticated" not in methods:
            return None
        return Caller(by=http_rules.IAM, name=str(pooled.get("identityId")), claims=iam)
    return _of_iam(iam, iam.get("userId") or iam.get("callerId"))


def _of_claims(claims: Mapping[str, Any]) -> Caller:
    subject = claims.get("sub") or claims.get("client_id") or _fingerprint(claims)
    return Caller(by=http_rules.JWT, name=f"{claims.get('iss', '')} {subject}", claims=claims)


def _of_iam(claims: Mapping[str, Any], user: object) -> Caller:
    """A role is one caller in all its sessions: `AROA…:SESSION` differs at each of them."""
    return Caller(
        by=http_rules.IAM,
        name=f"{claims.get('accountId')} {str(user).partition(':')[0]}",
        claims=claims,
    )


def _fingerprint(claims: Mapping[str, Any]) -> str:
    """Of claims that name nobody: those that are the same from one token to the next."""
    passing = ("exp", "iat", "nbf", "jti", "auth_time", "integrationLatency")
    return repr(sorted((str(k), str(v)) for k, v in claims.items() if k not in passing))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
