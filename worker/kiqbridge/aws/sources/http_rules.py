"""What the operator allows of HTTP requests; the only part of the HTTP source that every start loads."""

from typing import Final

from kiqbridge.records import dataclass

IAM: Final = "iam"
"""Signed with AWS credentials, and verified by API Gateway or the Function URL."""
JWT: Final = "jwt"
"""A token that API Gateway verified: a JWT authorizer, or a Cognito user pool."""
AUTHORIZER: Final = "authorizer"
"""A Lambda authorizer let it pass, and says who it is."""
ALB: Final = "alb"
"""It came through a load balancer, whose rules authenticate; nothing in the event proves it."""
NONE: Final = "none"
"""Anybody."""

DEFAULT_AUTH: Final = (IAM, JWT, AUTHORIZER)
MAX_EVENT_BYTES: Final = 1_048_576
"""What AWS accepts of an asynchronous event or an SQS message at most, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRules:
    """Which requests may ask for jobs.

    Attributes:
        auth: ways of authentication that are accepted.
        max_event_bytes: largest body in bytes.
    """

    auth: tuple[str, ...] = DEFAULT_AUTH
    max_event_bytes: int = MAX_EVENT_BYTES
