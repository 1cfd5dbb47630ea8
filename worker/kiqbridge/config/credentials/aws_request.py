"""One request to an API of AWS that speaks JSON, signed and without botocore.

The address of Redis may be a text in Secrets Manager or SSM. It is stored as an address
(`rediss://USER:PASSWORD@HOST:6379/0`), or a JSON object, or a password alone. The object has `url`, or the parts of
an address; parts that it lacks are those of REDIS_URL. No message quotes what is stored.
"""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kiqbridge.config.client_settings import RedisAccess, region_in
from kiqbridge.config.credentials.sigv4 import Keychain, Keys, Signer
from kiqbridge.errors import ConfigError, RedisMisconfigured, RedisUnavailable
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


_OFF: Final = ("false", "0", "no", "")


class StoredText:
    """A secret, or a parameter of SSM; each `read` is one request.

    Args:
        secret: name or ARN of the secret; "" = it is a parameter.
        parameter: name of the parameter.
        aws: the variables of the environment that are AWS's.

    Raises:
        ConfigError: the region is not known.
    """

    def __init__(self, secret: str, parameter: str, aws: Mapping[str, str]) -> None:
        self._secret, self._parameter, self._aws = secret, parameter, aws
        self._keychain = Keychain(aws)
        self.name = f"the secret {secret}" if secret else f"the parameter {parameter}"
        self._region = _region_of(secret or parameter) or region_in(aws)
        if not self._region:
            raise ConfigError(
                f"{self.name}: its region is not known; give its ARN, or set AWS_REGION"
            )

    def read(self, timeout_s: float, **version: str) -> str:
        """The text.

        Args:
            timeout_s: seconds until a silent service counts as away.
            version: of a secret, such as `VersionStage="AWSPREVIOUS"`.

        Raises:
            RedisMisconfigured: it cannot be read for a reason that stays.
            RedisUnavailable: the service is away.
        """
        service, operation = "secretsmanager", "secretsmanager.GetSecretValue"
        content: dict[str, Any] = {"SecretId": self._secret, **version}
        if not self._secret:
            service, operation = "ssm", "AmazonSSM.GetParameter"
            content = {"Name": self._parameter, "WithDecryption": True}
        try:
            answer = call(
                service,
                operation,
                content,
                region=self._region,
                keys=self._keychain.keys(),
                aws=self._aws,
                timeout_s=timeout_s,
            )
        except RedisMisconfigured as error:
            raise RedisMisconfigured(f"{self.name} cannot be read: {error}") from None
        if not self._secret:
            return str((answer.get("Parameter") or {}).get("Value", ""))
        text = answer.get("SecretString")
        if text is None:
            text = base64.b64decode(answer.get("SecretBinary") or "").decode("utf-8", "replace")
        return str(text)


class StoredAddress:
    """Reads the address where `access` says; each `read` is one request.

    Raises:
        ConfigError: the region is not known.
    """

    def __init__(self, access: RedisAccess) -> None:
        self._base = None if access.url_is_default else access.url
        self._stored = StoredText(access.secret_arn, access.ssm_parameter, access.aws)
        self.name = self._stored.name

    def __repr__(self) -> str:
        return f"StoredAddress({self.name})"

    def read(self, timeout_s: float) -> str:
        """The address with its password; raises as `StoredText.read`, also if what is stored is no address."""
        text = self._stored.read(timeout_s)
        try:
            return address_of(text, self._base)
        except ValueError as error:
            raise RedisMisconfigured(f"{self.name} cannot be used: {error}") from None


def address_of(stored: str, base: str | None) -> str:
    """The address that a stored text and REDIS_URL make together.

    Args:
        stored: an address, a JSON object, or a password.
        base: REDIS_URL, None when it is not set.

    Raises:
        ValueError: they make none; the message quotes nothing.
    """
    text = stored.strip()
    if not text:
        raise ValueError("it is empty; store an address, a JSON object or a password")
    if text.startswith("{"):
        return _of_object(text, base)
    if "://" in text:
        return text
    return _with_credentials(base, None, text)


def _of_object(text: str, base: str | None) -> str:
    try:
        content = json.loads(text)
    except ValueError:
        raise ValueError(
            "it begins like a JSON object but is not one; write it with a JSON tool"
        ) from None
    url = content.get("url")
    if url:
        if not isinstance(url, str) or "://" not in url:
            raise ValueError("its url is not an address; write rediss://HOST:6379/0")
        return url
    for name in ("host", "username", "password"):
        if not isinstance(content.get(name, ""), str):
            raise ValueError(f"its {name} is not a text")  # noqa: TRY004 - as all that is wrong with it
    user, password = content.get("username") or None, content.get("password") or None
    host = content.get("host")
    if not host:
        return _with_credentials(base, user, password)
    if not str(content.get("port", 6379)).isdigit() or not str(content.get("db", 0)).isdigit():
        raise ValueError("its port or db is not a whole number")
    scheme = "redis" if str(content.get("ssl", True)).lower() in _OFF else "rediss"
    options = (base or "").partition("?")[2]  # such as the file of an authority
    place = f"[{host}]" if ":" in host else host
    return (
        f"{scheme}://{_credentials(user, password)}{place}:{content.get('port', 6379)}/{content.get('db', 0)}"
        f"{f'?{options}' if options else ''}"
    )


def _with_credentials(base: str | None, user: str | None, password: str | None) -> str:
    if base is None:
        raise ValueError("it holds no host; set REDIS_URL to the address without the password")
    if password is None:
        raise ValueError("it holds neither url nor host nor password")
    scheme, _, rest = base.partition("://")
    ends = [at for at in (rest.find("/"), rest.find("?")) if at >= 0]
    end = min(ends) if ends else len(rest)
    known, _, host = rest[:end].rpartition("@")
    # A user in the address is quoted already.
    former = known.partition(":")[0]
    login = f":{quote(password, safe='')}@"
    login = f"{quote(user, safe='')}{login}" if user else f"{former}{login}"
    return f"{scheme}://{login}{host}{rest[end:]}"


def _credentials(user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"


def _region_of(name: str) -> str:
    parts = name.split(":")
    return parts[3] if name.startswith("arn:") and len(parts) > 3 else ""  # noqa: PLR2004
