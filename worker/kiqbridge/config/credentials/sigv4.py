"""AWS's Signature Version 4: of a request's headers, and of an address that is signed beforehand; and its keys.

The keys are those of this process: from its environment, else as AWS's SDKs look for them. Signing is written with the standard library only (see the package); the tests compare it with botocore.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from kiqbridge.errors import RedisMisconfigured, RedisUnavailable
from kiqbridge.runtime.records import dataclass

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """An access key; `session_token` is None for keys that do not expire."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Keychain:
    """Gives the keys of the moment; those of a role are renewed by botocore before they expire.

    A Lambda function has its keys in the environment. A task of ECS, an EC2 instance and a profile need
    botocore, the extra `aws`.

    Args:
        aws: the variables of the environment that are AWS's.
    """

    def __init__(self, aws: Mapping[str, str]) -> None:
        self._aws = aws
        self._role: Any = None

    def __repr__(self) -> str:
        return "Keychain()"

    def keys(self) -> Keys:
        """The keys of the moment.

        Raises:
            RedisMisconfigured: there are none, or botocore is missing.
            RedisUnavailable: those of the role cannot be read now.
        """
        access_key = self._aws.get("AWS_ACCESS_KEY_ID")
        secret_key = self._aws.get("AWS_SECRET_ACCESS_KEY")
        if access_key and secret_key:
            token = self._aws.get("AWS_SESSION_TOKEN") or None
            return Keys(access_key=access_key, secret_key=secret_key, session_token=token)
        try:
            import botocore.exceptions  # noqa: PLC0415 - see the package
            import botocore.session  # noqa: PLC0415
        except ImportError:
            raise RedisMisconfigured(
                "AWS_ACCESS_KEY_ID is not set, and botocore, which reads the keys of a role, is not "
                "installed: pip install 'kiqbridge[aws]'"
            ) from None
        try:
            if self._role is None:
                self._role = botocore.session.get_session().get_credentials()
            if self._role is not None:
                found = self._role.get_frozen_credentials()
                return Keys(
                    access_key=found.access_key,
                    secret_key=found.secret_key,
                    session_token=found.token,
                )
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise RedisUnavailable(f"the keys of the role cannot be read now: {error}") from error
        raise RedisMisconfigured(
            "there are no AWS credentials; give the function, the task or the instance a role, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs for one service in one region, at `now` (seconds since the epoch)."""

    keys: Keys
    region: str
    service: str
    now: float

    def headers(
        self, *, host: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of a POST request, with those that sign it; `headers` have names in lower case."""
        signed = {**headers, "host": host, "x-amz-date": self._time}
        if self.keys.session_token:
            signed["x-amz-security-token"] = self.keys.session_token
        names = sorted(signed)
        canonical = "".join(f"{name}:{signed[name].strip()}\n" for name in names)
        signature = self._signature(f"POST\n{path}\n\n{canonical}\n{';'.join(names)}\n{_sha(body)}")
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={self.keys.access_key}/{self._scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return signed

    def presigned(self, *, host: str, params: Mapping[str, str], expires_s: int) -> str:
        """An address for GET of `/`, without scheme, that is valid for `expires_s` seconds."""
        query = {
            **params,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.keys.access_key}/{self._scope}",
            "X-Amz-Date": self._time,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": "host",
        }
        if self.keys.session_token:
            query["X-Amz-Security-Token"] = self.keys.session_token
        canonical = "&".join(
            f"{name}={value}"
            for name, value in sorted((_quoted(name), _quoted(query[name])) for name in query)
        )
        signature = self._signature(f"GET\n/\n{canonical}\nhost:{host}\n\nhost\n{_sha(b'')}")
        return f"{host}/?{canonical}&X-Amz-Signature={signature}"

    @property
    def _time(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def _scope(self) -> str:
        return f"{self._time[:8]}/{self.region}/{self.service}/aws4_request"

    def _signature(self, request: str) -> str:
        key = f"AWS4{self.keys.secret_key}".encode()
        for part in self._scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"{_ALGORITHM}\n{self._time}\n{self._scope}\n{_sha(request.encode())}"
        return hmac.new(key, text.encode(), "sha256").hexdigest()


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
