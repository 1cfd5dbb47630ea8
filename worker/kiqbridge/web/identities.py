"""The AWS identity that API Gateway or a Function URL has verified (AWS_IAM), for the page as a Lambda function.

Only `requestContext` counts: AWS writes it, and a caller cannot. No header proves anything.
"""

from collections.abc import Mapping
from typing import Any


def find_arn(event: object) -> str | None:
    """The ARN of who signed the request; None = nobody whom AWS has verified.

    A guest of a Cognito identity pool does not count: anybody gets such credentials.

    Args:
        event: the event of the Lambda invocation, `aws.event` in the ASGI scope.
    """
    context = _mapping(_mapping(event).get("requestContext"))
    of_version_2 = _mapping(_mapping(context.get("authorizer")).get("iam"))
    identity = of_version_2 or _mapping(context.get("identity"))
    arn, account = identity.get("userArn"), identity.get("accountId")
    if not isinstance(arn, str) or not arn.startswith("arn:") or not account:
        return None
    if identity.get("cognitoAuthenticationType") == "unauthenticated":
        return None
    if pooled := _mapping(identity.get("cognitoIdentity")):
        methods = pooled.get("amr")
        if not isinstance(methods, list) or "authenticated" not in methods:
            return None
    return arn


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
