"""One request to an API of AWS that speaks JSON, signed and without botocore."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from kiqbridge.config.credentials.sigv4 import Keys, Signer
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable
from kiqbridge.runtime.direct_opener import direct_opener

_TEMPORARY: Final = ("Throttl", "TooManyRequests", "LimitExceeded", "Internal", "Unavailable")
"""In the codes of errors that a later request may not get."""


def call(
    service: str,
    operation: str,
    content: Mapping[str, Any],
    *,
    region: str,
    keys: Keys,
    aws: Mapping[str, str],
    timeout_s: float,
) -> dict[str, Any]:
    """Send it once and return the answer.

    Args:
        service: its name in addresses and signatures: `secretsmanager`, `ssm`.
        operation: as the header X-Amz-Target has it.
        content: of the request.
        region: where.
        keys: sign it.
        aws: the variables of the environment that are AWS's: endpoints, FIPS, authorities.
        timeout_s: seconds until a silent service counts as away.

    Raises:
        RedisMisconfigured: refused for a reason that stays: no permission, no such secret.
        RedisUnavailable: away, or busy.
    """
    url = endpoint(service, region, aws)
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": operation}
    body = json.dumps(content).encode()
    request = signed(url, body, headers, service=service, region=region, keys=keys)
    where = f"{operation} at {request.host}"
    try:
        with direct_opener(aws).open(request, timeout=timeout_s) as answer:
            return _object(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(where, error.code, error.read()) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise RedisUnavailable(
            f"{where} does not answer: {str(reason).rstrip('.')}; a function or task in a VPC needs an "
            f"endpoint for {service} there"
        ) from None


def signed(
    url: str, body: bytes, headers: Mapping[str, str], *, service: str, region: str, keys: Keys
) -> urllib.request.Request:
    """A POST to a service."""
    parts = urlsplit(url)
    signer = Signer(keys=keys, region=region, service=service, now=time.time())
    made = signer.headers(host=parts.netloc, path=parts.path or "/", body=body, headers=headers)
    return urllib.request.Request(url, body, made, method="POST")  # noqa: S310 - see endpoint


def endpoint(service: str, region: str, aws: Mapping[str, str]) -> str:
    """The address of a service: the one that the environment names, else AWS's own, always https.

    Raises:
        RedisMisconfigured: the environment names one that is none.
    """
    variable = {"secretsmanager": "AWS_ENDPOINT_URL_SECRETS_MANAGER"}.get(
        service, f"AWS_ENDPOINT_URL_{service.upper()}"
    )
    for name in (variable, "AWS_ENDPOINT_URL"):
        if aws.get(name):
            if not aws[name].startswith(("https://", "http://")):
                raise RedisMisconfigured(f"{name}: is not an address; write https://HOST")
            return aws[name]
    fips = "-fips" if aws.get("AWS_USE_FIPS_ENDPOINT", "").lower() == "true" else ""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{service}{fips}.{region}.{suffix}/"


def _object(body: bytes) -> dict[str, Any]:
    answer = json.loads(body)
    if not isinstance(answer, dict):
        raise TypeError
    return answer


def _refusal(where: str, status: int, body: bytes) -> RedisUnavailable:
    try:
        answer = _object(body)
    except (ValueError, TypeError):
        answer = {}
    code = str(answer.get("__type", "")).rpartition("#")[2] or f"HTTP {status}"
    message = str(answer.get("message") or answer.get("Message") or "").rstrip(".")
    if status < HTTPStatus.BAD_REQUEST:
        return RedisMisconfigured(
            f"{where} answered with a redirect ({status}), which a signed request never follows; check "
            "AWS_ENDPOINT_URL, the region, and proxies on the way"
        )
    text = f"{where} was refused: {code}{f', {message}' if message else ''}"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or any(word in code for word in _TEMPORARY):
        return RedisUnavailable(f"{text}; it is tried again")
    return RedisMisconfigured(
        f"{text}; check the name, the region, and that the role may use it (docs/how_to/connections.md)"
    )
