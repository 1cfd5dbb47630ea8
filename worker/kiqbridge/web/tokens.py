"""Tokens (JWT) that a proxy or an identity provider adds to each request: verified with PyJWT.

What is accepted is decided here and never by the token: the header in which it comes, the algorithms, the
key, the issuer, the audience. A token needs an end (`exp`). For an AWS load balancer, `signer` is its ARN: its
keys are the same for all load balancers of a region, so that anybody's would do without it.
"""

import http.client
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.runtime.direct_opener import direct_opener
from kiqbridge.web.guard import values_of_claim
from kiqbridge.web.limits import Buckets, keep

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
MAX_MISSING: Final = 10_000
MAX_FETCHING: Final = 8
"""Requests that fetch a key, or wait for one, at a time; others are refused: the page has 40 threads for all."""
_WAIT_S: Final = 2 * FETCH_TIMEOUT_S
FETCHES: Final = 5
FETCHES_PER_S: Final = 1 / 12
"""Of keys that are not known, for one caller."""
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


class FetchedKeys:
    """What addresses of keys hold; safe for threads.

    Anybody can name a key that does not exist: nothing of a token is verified before its key is there. So a fetch holds
    no lock, few wait for one at a time, each caller has a budget of fetches, and what was not found is remembered apart
    from what was. A key that is known is given out at once whatever the others do.
    (PyJWT's own `PyJWKClient` fetches under the lock that each check takes, and knows no address for each key.)

    Args:
        fetch: what an address holds; raises `TokenRefused`.
    """

    def __init__(self, fetch: Callable[[str], Any]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._flights: dict[str, Future[Any]] = {}
        self._busy = 0
        self._budget = Buckets(FETCHES, FETCHES_PER_S)

    def find(self, address: str, fits: Callable[[Any], bool], caller: str) -> Any:
        """What it holds, asked for again once an hour, and once a minute if that does not fit.

        Args:
            address: of the key or the set of keys.
            fits: whether what is known may have the key.
            caller: whose budget a fetch is on.

        Raises:
            TokenRefused: it cannot be fetched, or not now.
        """
        with self._lock:
            at, found = self._known.get(address, (float("-inf"), None))
            usable = found is not None and fits(found)
            now = time.monotonic()
            if usable:
                self._known.move_to_end(address)
            asked_at = max(at, self._missing.get(address, float("-inf")))
            if now - asked_at < (KEYS_FRESH_S if usable else REFETCH_AFTER_S):
                if found is None:
                    raise TokenRefused("the key of the token cannot be fetched")
                return found
            flight = self._flights.get(address)
            is_full = self._busy >= MAX_FETCHING
            if usable and (flight is not None or is_full):
                return found  # somebody renews it
            if is_full or (flight is None and not usable and self._budget.take(caller)):
                raise TokenRefused("too many keys that are not known are asked for; try again")
            self._busy += 1
            if flight is None:
                own = self._flights[address] = Future()
        try:
            return self._ask(address, own) if flight is None else flight.result(_WAIT_S)
        except TokenRefused:
            if usable:
                return found  # what was right until now, while its address does not answer
            raise
        except TimeoutError as error:
            raise TokenRefused("the key of the token cannot be fetched in time") from error
        finally:
            with self._lock:
                self._busy -= 1

    def _ask(self, address: str, flight: "Future[Any]") -> Any:
        try:
            found = self._fetch(address)
        except BaseException as error:
            with self._lock:
                keep(self._missing, address, time.monotonic(), MAX_MISSING)
                del self._flights[address]
            flight.set_exception(error)
            raise
        with self._lock:
            self._missing.pop(address, None)
            keep(self._known, address, (time.monotonic(), found), MAX_KEYS)
            del self._flights[address]
        flight.set_result(found)
        return found


class TokenReader:
    """Verifies tokens by rules; safe for threads.

    Raises:
        ConfigError: the rules cannot work; names the setting.
    """

    def __init__(self, rules: TokenRules) -> None:
        try:
            import jwt  # noqa: PLC0415 - only pages with tokens wait for it
        except ImportError as error:
            raise ConfigError(
                "web_jwt_key: tokens need PyJWT: pip install 'kiqbridge[web]'"
            ) from error
        self._jwt = jwt
        self.rules = rules
        self._fetched = FetchedKeys(self._load)
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

    def read(self, token: str, caller: str = "") -> Mapping[str, Any]:
        """The claims of a token.

        Args:
            token: as it came.
            caller: who sent it, an address: keys that are not known are fetched a few times for each.

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
                self._key(str(head.get("kid", "")), caller),
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

    def _key(self, key_id: str, caller: str) -> Any:
        found = self._fetch(key_id, caller) if self._kept is None else self._kept
        if not isinstance(found, self._jwt.PyJWKSet):
            return found
        fitting = [each for each in found.keys if key_id in ("", each.key_id)]
        if len(fitting) != 1:
            raise TokenRefused("no key has the id that the token names")
        return fitting[0].key

    def _fetch(self, key_id: str, caller: str) -> Any:
        if "{kid}" in self.rules.key and not _KEY_ID.fullmatch(key_id):
            raise TokenRefused("the token names no key")

        def fits(found: Any) -> bool:
            return not isinstance(found, self._jwt.PyJWKSet) or any(
                key_id in ("", each.key_id) for each in found.keys
            )

        return self._fetched.find(self.rules.key.replace("{kid}", key_id), fits, caller)

    def _load(self, address: str) -> Any:
        try:
            return self._parse(_download(address))
        except ConfigError as error:
            raise TokenRefused(f"the address of the key holds none: {error}") from error

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


def _download(address: str) -> str:
    """What an address holds: the one of the setting, and no other to which that leads."""
    try:
        with direct_opener().open(address, timeout=FETCH_TIMEOUT_S) as answer:
            text: str = answer.read(MAX_KEYS_BYTES).decode("utf-8")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise TokenRefused("the key of the token cannot be fetched") from error
    return text
