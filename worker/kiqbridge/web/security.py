"""What protects the page, as one value."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kiqbridge.config.setting import Setting, pick
from kiqbridge.config.web_settings import ForWeb
from kiqbridge.errors import ConfigError
from kiqbridge.runtime import redaction
from kiqbridge.runtime.redaction import Redactor
from kiqbridge.web import middleware
from kiqbridge.web.auth import Auth, parse_users
from kiqbridge.web.guard import Role, RoleRules, allows
from kiqbridge.web.tokens import TokenRules, check_algorithms, read_file

OIDC_HEADER: Final = "x-amzn-oidc-data"
NO_ROLE: Final = "nobody"

Reader = Callable[[Setting], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What protects the page; the defaults let everybody look who reaches it.

    Attributes:
        auth: how callers are verified.
        role: without sign-in what everybody may do (None = viewer), else the most that anybody may do.
        hosts: names under which it is served; None = all.
        origins: other addresses from which forms may come, such as http://localhost:8080.
        proxies: whose forwarding headers count.
        writes_per_minute: for each caller.
        session_s: seconds from sign-in to the end of a session.
        max_body_bytes: of a request.
        hidden: names of arguments that are hidden, `*` for any letters; None = those of the setting `redact`.
        shows_all_to: from which role on nothing is hidden; None = from none.
        shows_args_to: from which role on arguments are shown; None = from none.
    """

    auth: Auth = field(default_factory=Auth)
    role: Role | None = None
    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    proxies: tuple[middleware.Network, ...] = ()
    writes_per_minute: int = ForWeb.web_writes_per_minute.default
    session_s: float = ForWeb.web_session_s.default
    max_body_bytes: int = ForWeb.web_max_body_bytes.default
    hidden: tuple[str, ...] | None = None
    shows_all_to: Role | None = "operator"
    shows_args_to: Role | None = "operator"

    @property
    def most(self) -> Role:
        """What everybody may do without sign-in, or the most that anybody may do."""
        return self.role or ("admin" if self.auth.is_needed else "viewer")

    @property
    def redactor(self) -> Redactor:
        """Hides arguments by their names."""
        return redaction.current() if self.hidden is None else Redactor(self.hidden)

    def hides_from(self, role: Role) -> bool:
        """Whether values with the names of secrets are hidden from a role."""
        return self.shows_all_to is None or not allows(role, self.shows_all_to)

    def hides_args_from(self, role: Role) -> bool:
        """Whether arguments are hidden from a role as a whole: a secret in its place has no name."""
        return self.shows_args_to is None or not allows(role, self.shows_args_to)


def read_security(environ: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Security:
    """The security that the settings have.

    Args:
        environ: environment variables.
        flags: setting name → value of the command line, only those that were given.

    Raises:
        ConfigError: a wrong value; names the setting and its source.
    """

    def read(setting: Setting) -> Any:
        value, source = pick(setting, environ, flags=flags)
        return value if value is None else setting.parsed(value, source)

    def read_role(setting: Setting) -> Role | None:
        role: Role | Literal["nobody"] = read(setting)
        return None if role == NO_ROLE else role

    users = parse_users(read(ForWeb.web_users), ForWeb.web_users.env[0])
    if path := read(ForWeb.web_users_file):
        what = "the path of a file with one NAME:ROLE:HASH a line"
        users |= parse_users(read_file(path, f"web_users_file: {path!r}", what), path)
    secret = read(ForWeb.web_secret)
    return Security(
        auth=Auth(
            users=users,
            tokens=_read_tokens(read),
            is_iam=read(ForWeb.web_iam),
            roles=RoleRules.parse(read(ForWeb.web_roles), ForWeb.web_roles.env[0]),
            secret=secret.encode() if secret else None,
        ),
        role=read(ForWeb.web_role),
        hosts=read(ForWeb.web_hosts) or None,
        origins=read(ForWeb.web_origins),
        proxies=middleware.parse_networks(read(ForWeb.web_proxies), ForWeb.web_proxies.env[0]),
        writes_per_minute=read(ForWeb.web_writes_per_minute),
        session_s=read(ForWeb.web_session_s),
        max_body_bytes=read(ForWeb.web_max_body_bytes),
        hidden=read(ForWeb.web_redact) or None,
        shows_all_to=read_role(ForWeb.web_shows_all_to),
        shows_args_to=read_role(ForWeb.web_shows_args_to),
    )


def _read_tokens(read: Reader) -> TokenRules | None:
    key = read(ForWeb.web_jwt_key)
    if not key:
        return None
    header, signer = read(ForWeb.web_jwt_header), read(ForWeb.web_jwt_signer)
    if header.lower() == OIDC_HEADER and not signer:
        raise ConfigError(
            f"web_jwt_signer: {OIDC_HEADER} is signed with keys that all load balancers of a region share; set "
            f"{ForWeb.web_jwt_signer.env[0]} to the ARN of yours"
        )
    algorithms: Iterable[str] = read(ForWeb.web_jwt_algorithms)
    check_algorithms(tuple(algorithms))
    return TokenRules(
        key=key,
        issuer=read(ForWeb.web_jwt_issuer) or None,
        audience=read(ForWeb.web_jwt_audience) or None,
        header=header,
        algorithms=tuple(algorithms),
        role_claim=read(ForWeb.web_jwt_role_claim),
        signer=signer or None,
    )
