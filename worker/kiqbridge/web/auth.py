"""Who may use the page, and who makes a request: a password, a session, a token, or an AWS identity."""

import base64
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from kiqbridge.errors import ConfigError
from kiqbridge.web.guard import ROLES, Caller, Role, RoleRules, parse_role
from kiqbridge.web.limits import keep, network_of
from kiqbridge.web.passwords import check_hash, is_right
from kiqbridge.web.sessions import Session, Sessions
from kiqbridge.web.tokens import TokenReader, TokenRefused, TokenRules, name_of

REMEMBERED_S: Final = 60.0
"""For so long a password that came with a request is not hashed again: scripts send it with each one."""
MAX_REMEMBERED: Final = 1000
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user of the page.

    Attributes:
        role: what they may do.
        password_hash: made by `kiqbridge web --hash-password`.
    """

    role: Role
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How callers are verified; several ways may be on at once.

    Attributes:
        users: name → user, for the sign-in form and for HTTP basic authentication.
        tokens: which tokens are accepted; None = none.
        is_iam: whether the AWS identity counts that API Gateway or a Function URL has verified.
        roles: the roles of groups in tokens, and of ARNs. Without rules a token's claim names the role itself.
        secret: the key of sessions and forms, at least 32 bytes, the same for all processes; None = random.
    """

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: TokenRules | None = None
    is_iam: bool = False
    roles: RoleRules = field(default_factory=RoleRules)
    secret: bytes | None = field(default=None, repr=False)

    @property
    def is_needed(self) -> bool:
        """Whether a caller must be verified in one of the ways."""
        return bool(self.users or self.tokens or self.is_iam)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A caller who is not let in.

    Attributes:
        reason: for the log; shows no password and no token.
        is_attempt: a password was tried, which counts against guessing.
        is_known: it is verified who they are, but they have no role.
    """

    reason: str
    is_attempt: bool = False
    is_known: bool = False


class Verifier:
    """Finds out who makes a request; safe for threads.

    Args:
        auth: the ways.
        sessions: reads cookies.

    Raises:
        ConfigError: a way cannot work; names the setting.
    """

    def __init__(self, auth: Auth, sessions: Sessions) -> None:
        self._auth = auth
        self._sessions = sessions
        self._tokens = None if auth.tokens is None else TokenReader(auth.tokens)
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        for name, user in auth.users.items():
            check_hash(user.password_hash, f"user {name!r}")

    @property
    def has_users(self) -> bool:
        """Whether somebody can sign in with a password."""
        return bool(self._auth.users)

    @property
    def fetches_keys(self) -> bool:
        """Whether to verify somebody may take a request of ours to another server."""
        return self._tokens is not None and self._tokens.fetches_keys

    def tried_name(self, scope: Scope) -> str | None:
        """The name with a password that must be hashed, empty if it cannot be read; None = there is no such password."""
        value = Headers(scope=scope).get("authorization", "")
        if not self._is_basic(value) or self._is_remembered(value):
            return None
        given = _name_and_password(value)
        return given[0][:MAX_NAME] if given else ""

    def find(self, scope: Scope) -> Caller | Refused:
        """Who makes the request: the first of AWS identity, token, password, session that is given decides."""
        headers = Headers(scope=scope)
        if self._auth.is_iam and (arn := find_arn(scope.get("aws.event"))):
            return self._with_role(arn, self._auth.roles.role_of([arn]), "iam")
        if self._tokens is not None:
            token = self._tokens.find(headers.get(self._tokens.rules.header, ""))
            if token is not None:
                client = scope.get("client")
                caller = network_of(str(client[0])) if client else ""
                return self._of_token(self._tokens, token, caller)
        authorization = headers.get("authorization", "")
        if self._is_basic(authorization):
            return self._of_password(authorization)
        session = self.session(scope)
        if session is not None and session.name:
            user = self._auth.users.get(session.name)
            if user is None or not hmac.compare_digest(
                session.proof, self._sessions.proof(user.password_hash)
            ):
                return Refused(reason=f"the session of {shown(session.name)} is over")
            return Caller(name=session.name, role=user.role, way="session")
        return Refused(reason="no user has signed in")

    def session(self, scope: Scope) -> Session | None:
        """The session of the request's cookie, signed in or not."""
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        value = cookies.get(self._sessions.cookie(scope.get("scheme", "http")))
        return None if value is None else self._sessions.read(value, time.time())

    def sign_in(self, name: str, password: str) -> Session | None:
        """A new session for a name and a password; None = they do not belong together. Takes long."""
        user = self._auth.users.get(name)
        if not is_right(password, None if user is None else user.password_hash) or user is None:
            return None
        return self._sessions.begin(time.time(), name=name, password_hash=user.password_hash)

    def _of_token(self, tokens: TokenReader, token: str, caller: str) -> Caller | Refused:
        try:
            claims = tokens.read(token, caller)
        except TokenRefused as error:
            return Refused(reason=str(error))
        name = name_of(claims)
        if not name:
            return Refused(reason="the token names no user")
        rules = self._auth.roles
        if not rules.globs:
            rules = RoleRules(tuple((role, role) for role in ROLES))
        return self._with_role(name, rules.role_of(tokens.roles(claims)), "token")

    def _of_password(self, authorization: str) -> Caller | Refused:
        given = _name_and_password(authorization)
        if given is None:
            return Refused(reason="the Authorization header cannot be read", is_attempt=True)
        name, password = given
        user = self._auth.users.get(name)
        if not self._is_remembered(authorization):
            if not is_right(password, None if user is None else user.password_hash):
                return Refused(reason=f"wrong password for {shown(name)}", is_attempt=True)
            with self._lock:
                until = time.monotonic() + REMEMBERED_S
                keep(self._remembered, self._mark(authorization), until, MAX_REMEMBERED)
        if user is None:  # no longer possible, but a user is needed for the role
            return Refused(reason=f"no user {shown(name)}", is_attempt=True)
        return Caller(name=name, role=user.role, way="basic")

    def _with_role(self, name: str, role: Role | None, way: str) -> Caller | Refused:
        if role is None:
            return Refused(reason=f"{shown(name)} has no role (KIQBRIDGE_WEB_ROLES)", is_known=True)
        return Caller(name=name, role=role, way=way)

    def _is_basic(self, authorization: str) -> bool:
        return self.has_users and authorization[:6].lower() == "basic "

    def _is_remembered(self, authorization: str) -> bool:
        with self._lock:
            return self._remembered.get(self._mark(authorization), 0) > time.monotonic()

    def _mark(self, authorization: str) -> bytes:
        return hmac.digest(self._key, authorization.encode("utf-8", "replace"), "sha256")


def parse_users(text: str, source: str) -> dict[str, User]:
    """Users out of `NAME:ROLE:HASH`, one a line or with commas between them; `#` begins a comment line.

    Raises:
        ConfigError: a line is none; names the source, and shows no hash.
    """
    users: dict[str, User] = {}
    lines = [line.strip() for part in text.split(",") for line in part.splitlines()]
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        role, colon, password_hash = rest.partition(":")
        if not name or not colon or name in users:
            raise ConfigError(
                f"web_users: line {number} of {source} is not NAME:ROLE:HASH, or names a user twice; make a hash "
                "with `kiqbridge web --hash-password`"
            )
        users[name] = User(
            role=parse_role(role, source), password_hash=check_hash(password_hash, f"user {name!r}")
        )
    return users


def shown(name: Any) -> str:
    """A name from a request as a log line shows it: in quotes, without control characters, shortened."""
    return repr(str(name)[:MAX_NAME])


def find_arn(event: object) -> str | None:
    """The ARN of the identity that signed the request; None = AWS has verified none.

    Only `requestContext` counts: AWS writes it, and a caller cannot. No header proves anything. A guest of a Cognito
    identity pool does not count: anybody gets such credentials.

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


def _name_and_password(authorization: str) -> tuple[str, str] | None:
    """What HTTP basic authentication sends; None = it cannot be read."""
    try:
        decoded = base64.b64decode(authorization.split(None, 1)[1], validate=True).decode()
    except (IndexError, ValueError):
        return None
    name, _, password = decoded.partition(":")
    return name, password


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
