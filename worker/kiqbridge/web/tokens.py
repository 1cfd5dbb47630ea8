"""Tokens (JWT) that a proxy or an identity provider adds to each request: verified with PyJWT.

What is accepted is decided here and never by the token: the header in which it comes, the algorithms, the
key, the issuer, the audience. A token needs an end (`exp`). For an AWS load balancer, `signer` is its ARN: its
keys are the same for all load balancers of a region, so that anybody's would do without it.
"""

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.web.guard import values_of_claim

DEFAULT_ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
KNOWN_ALGORITHMS: Final = (
    *(f"{family}{bits}" for family in ("RS", "ES", "PS", "HS") for bits in (256, 384, 512)),
    "EdDSA",
)
MIN_SECRET_BYTES: Final = 32
MAX_TOKEN: Final = 16_384
LEEWAY_S: Final = 60
KEYS_FRESH_S: Final = 3600.0
REFETCH_AFTER_S: Final = 60.0
FETCH_TIMEOUT_S: Final = 5.0
MAX_KEYS: Final = 32
MAX_KEYS_BYTES: Final = 1_000_000
NAME_CLAIMS: Final = ("email", "preferred_username", "username", "name", "sub")

_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class TokenRefused(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A token that is not accepted; the message says why, and shows nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Which tokens are accepted.

    Attributes:
        key: a PEM text, a JWKS as JSON, a shared secret (HS algorithms), or the path of a file with one; or an
            https address: of a JWKS, or with `{kid}` in it of a PEM for each key.
        issuer: what `iss` must be; None = not looked at.
        audience: what `aud` must be or contain; None = a token must have none.
        header: the request header, such as `Authorization` (after `Bearer`) or `x-amzn-oidc-data`.
        algorithms: those that are accepted.
        role_claim: the claim with roles or groups.
        signer: ARN of the load balancer that signs; None = not looked at.
    """

    key: str = field(repr=False)
    issuer: str | None = None
    audience: str | None = None
    header: str = "Authorization"
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    role_claim: str = "role"
    signer: str | None = None


class TokenReader:
    """Verifies tokens by rules; safe for threads.

    Raises:
        ConfigError: the rules cannot work; names the setting.
    """

    def __init__(self, rules: TokenRules) -> None:
        try:
            import jwt  # noqa: PLC0415 - only whoever uses tokens waits for it
        except ImportError as error:
            raise ConfigError(
                "web_jwt_key: tokens need PyJWT: pip install 'kiqbridge[web]'"
            ) from error
        self._jwt = jwt
        self.rules = rules
        self._lock = threading.Lock()
        self._fetched: dict[str, tuple[float, Any]] = {}
        check_algorithms(rules.algorithms)
        self._kept = None if rules.key.startswith("https://") else self._parse(_text_of(rules.key))

    @property
    def fetches_keys(self) -> bool:
        """Whether keys are fetched from an address."""
        return self._kept is None

    def find(self, value: str) -> str | None:
        """The token in the value of the request's header; None = there is none."""
        if self.rules.header.lower() != "authorization":
            return value or None
        scheme, _, token = value.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    def read(self, token: str) -> Mapping[str, Any]:
        """The claims of a token.

        Raises:
            TokenRefused: it is not accepted.
        """
        if len(token) > MAX_TOKEN:
            raise TokenRefused("the token is longer than any that is looked at")
        rules = self.rules
        try:
            head = self._jwt.get_unverified_header(token)
            if rules.signer is not None and head.get("signer") != rules.signer:
                raise TokenRefused("another load balancer has signed the token")
            claims: dict[str, Any] = self._jwt.decode(
                token,
                self._key(str(head.get("kid", ""))),
                algorithms=list(rules.algorithms),
                issuer=rules.issuer,
                audience=rules.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp"], "verify_aud": True},
            )
        except self._jwt.PyJWTError as error:
            raise TokenRefused(f"the token is refused: {error}") from error
        except (ValueError, TypeError) as error:
            raise TokenRefused("the token cannot be read") from error
        return claims

    def roles(self, claims: Mapping[str, Any]) -> list[str]:
        """What the claim of roles holds."""
        return values_of_claim(claims, self.rules.role_claim)

    def _key(self, key_id: str) -> Any:
        found = self._fetch(key_id) if self._kept is None else self._kept
        if not isinstance(found, self._jwt.PyJWKSet):
            return found
        fitting = [each for each in found.keys if key_id in ("", each.key_id)]
        if len(fitting) != 1:
            raise TokenRefused("no key has the id that the token names")
        return fitting[0].key

    def _fetch(self, key_id: str) -> Any:
        """What the address holds, asked for again once an hour, and for a key that it did not hold."""
        if "{kid}" in self.rules.key and not _KEY_ID.fullmatch(key_id):
            raise TokenRefused("the token names no key")
        address = self.rules.key.replace("{kid}", key_id)
        with self._lock:
            at, found = self._fetched.get(address, (float("-inf"), None))
            age = time.monotonic() - at
            is_missing = isinstance(found, self._jwt.PyJWKSet) and key_id not in {
                each.key_id for each in found.keys
            }
            if age < REFETCH_AFTER_S or (age < KEYS_FRESH_S and not is_missing):
                if found is None:
                    raise TokenRefused("the key of the token cannot be fetched")
                return found
            if len(self._fetched) >= MAX_KEYS:
                self._fetched.clear()
            self._fetched[address] = (time.monotonic(), found)
            found = self._parse(_download(address))
            self._fetched[address] = (time.monotonic(), found)
            return found

    def _parse(self, text: str) -> Any:
        symmetric = [each for each in self.rules.algorithms if each.startswith("HS")]
        if symmetric and len(symmetric) != len(self.rules.algorithms):
            raise ConfigError(
                "web_jwt_algorithms: HS… and others do not go together: one key would be both a secret and "
                "public; write those of one kind"
            )
        if text.lstrip().startswith("{"):
            try:
                return self._jwt.PyJWKSet.from_json(text)
            except (self._jwt.PyJWTError, ValueError) as error:
                raise ConfigError(f"web_jwt_key: the JWKS cannot be read: {error}") from error
        if symmetric and len(text.strip().encode()) < MIN_SECRET_BYTES:
            raise ConfigError(
                f"web_jwt_key: a secret of fewer than {MIN_SECRET_BYTES} bytes can be guessed; write a longer one"
            )
        if not symmetric and "-----BEGIN PUBLIC KEY-----" not in text:
            raise ConfigError(
                "web_jwt_key: this is no public key (PEM that begins with -----BEGIN PUBLIC KEY-----), no JWKS, "
                "no file with one and no https address"
            )
        return text.strip()


def check_algorithms(names: tuple[str, ...]) -> None:
    """Refuse what is no algorithm of signatures, `none` above all.

    Raises:
        ConfigError: names it.
    """
    unknown = [each for each in names if each not in KNOWN_ALGORITHMS]
    if unknown or not names:
        raise ConfigError(
            f"web_jwt_algorithms: {', '.join(unknown) or 'none given'}: write some of {', '.join(KNOWN_ALGORITHMS)}"
        )


def name_of(claims: Mapping[str, Any]) -> str:
    """Who the token is about, as the audit log shows it; empty = it does not say."""
    return next((str(claims[each])[:200] for each in NAME_CLAIMS if claims.get(each)), "")


def _text_of(key: str) -> str:
    if "-----BEGIN" in key or key.lstrip().startswith("{") or "/" not in key:
        return key
    # It is not shown: it may be a secret with a slash in it.
    return read_file(key, "web_jwt_key: the file", "the path of a PEM or JWKS file")


def read_file(path: str, named: str, what: str) -> str:
    """The text of a file that a setting names.

    Raises:
        ConfigError: it cannot be read; names it so, and says what to write.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{named} cannot be read: {type(error).__name__}; write {what}"
        ) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from the address of the setting, and from nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none: it is an error then."""


def _download(address: str) -> str:
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(address, timeout=FETCH_TIMEOUT_S) as answer:
            text: str = answer.read(MAX_KEYS_BYTES).decode("utf-8")
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise TokenRefused("the key of the token cannot be fetched") from error
    return json.dumps(json.loads(text)) if text.lstrip().startswith("{") else text
