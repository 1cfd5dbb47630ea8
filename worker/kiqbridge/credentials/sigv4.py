"""AWS's Signature Version 4: of a request's headers, and of an address that is signed beforehand.

Written with the standard library only (see the package); the tests compare it with botocore.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from kiqbridge.records import dataclass

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """An access key; `session_token` is None for keys that do not expire."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


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
