"""The rows of the table that the web page alone reads: `kiqbridge web`, the web function, a mounted page."""

from typing import Final

from kiqbridge.config.parsers import choice, seconds, switch, text, whole_number, words
from kiqbridge.config.setting import Setting

_ROLES: Final = ("viewer", "operator", "admin")
_PAGE: Final = ("web",)

WEB_HOST: Final = Setting(
    name="web_host",
    parse=text("web_host"),
    default="127.0.0.1",
    env=("KIQBRIDGE_WEB_HOST",),
    flags=("--host",),
    metavar="HOST",
    help="address on which `kiqbridge web` listens; another than loopback needs web_users, web_users_file or web_jwt_key",
    read_by=_PAGE,
)

WEB_PORT: Final = Setting(
    name="web_port",
    parse=whole_number("web_port", 0, 65_535),
    default=0,
    env=("KIQBRIDGE_WEB_PORT",),
    flags=("--port",),
    metavar="INT",
    help="port of `kiqbridge web`; 0 = one that is free",
    read_by=_PAGE,
)

WEB_ROLE: Final = Setting(
    name="web_role",
    parse=choice("web_role", *_ROLES),
    default=None,
    default_text="viewer; with sign-in each one's own",
    env=("KIQBRIDGE_WEB_ROLE",),
    flags=("--role",),
    metavar="viewer|operator|admin",
    help="what everybody may do without sign-in; with sign-in the most that anybody may do",
    read_by=_PAGE,
)

WEB_BASE_PATH: Final = Setting(
    name="web_base_path",
    parse=text("web_base_path"),
    default="",
    env=("KIQBRIDGE_WEB_BASE_PATH",),
    flags=("--base-path",),
    metavar="/PATH",
    help="path under which a proxy or gateway shows the page, whether or not it takes it off; for `kiqbridge web` and "
    "the web function",
    read_by=_PAGE,
)

WEB_USERS: Final = Setting(
    name="web_users",
    parse=text("web_users"),
    default="",
    env=("KIQBRIDGE_WEB_USERS",),
    help="users who sign in with a password, as NAME:ROLE:HASH with commas between them; `kiqbridge web --hash-password` "
    "makes a hash",
    read_by=_PAGE,
)

WEB_USERS_FILE: Final = Setting(
    name="web_users_file",
    parse=text("web_users_file"),
    default="",
    env=("KIQBRIDGE_WEB_USERS_FILE",),
    help="file with such users, one a line",
    read_by=_PAGE,
)

WEB_SECRET: Final = Setting(
    name="web_secret",
    parse=text("web_secret"),
    default="",
    default_text="random, so that a restart ends all sessions",
    env=("KIQBRIDGE_WEB_SECRET",),
    help="key that signs sessions and the tokens of forms, from 32 bytes; the same for all processes of one page",
    read_by=_PAGE,
)

WEB_SESSION_S: Final = Setting(
    name="web_session_s",
    parse=seconds("web_session_s", least=60),
    default=43_200,
    env=("KIQBRIDGE_WEB_SESSION_S",),
    help="seconds after which somebody who signed in must do so again; from 60",
    read_by=_PAGE,
)

WEB_IAM: Final = Setting(
    name="web_iam",
    parse=switch("web_iam"),
    default=False,
    env=("KIQBRIDGE_WEB_IAM",),
    help="true = the AWS identity counts that API Gateway or the Function URL has verified; web_roles gives it a role",
    read_by=_PAGE,
)

WEB_JWT_KEY: Final = Setting(
    name="web_jwt_key",
    parse=text("web_jwt_key"),
    default="",
    env=("KIQBRIDGE_WEB_JWT_KEY",),
    help="key that verifies tokens (JWT): a PEM or JWKS, a file with one, an https address of a JWKS, or one with {kid} "
    "of a PEM for each key; empty = tokens are not looked at",
    read_by=_PAGE,
)

WEB_JWT_HEADER: Final = Setting(
    name="web_jwt_header",
    parse=text("web_jwt_header"),
    default="Authorization",
    env=("KIQBRIDGE_WEB_JWT_HEADER",),
    help="request header with the token, such as x-amzn-oidc-data; in Authorization it stands after Bearer",
    read_by=_PAGE,
)

WEB_JWT_ALGORITHMS: Final = Setting(
    name="web_jwt_algorithms",
    parse=words("web_jwt_algorithms"),
    default="RS256,ES256,EdDSA",
    env=("KIQBRIDGE_WEB_JWT_ALGORITHMS",),
    help="algorithms of signatures that are accepted, with commas between them",
    read_by=_PAGE,
)

WEB_JWT_ISSUER: Final = Setting(
    name="web_jwt_issuer",
    parse=text("web_jwt_issuer"),
    default="",
    env=("KIQBRIDGE_WEB_JWT_ISSUER",),
    help="what `iss` of a token must be; empty = not looked at",
    read_by=_PAGE,
)

WEB_JWT_AUDIENCE: Final = Setting(
    name="web_jwt_audience",
    parse=text("web_jwt_audience"),
    default="",
    env=("KIQBRIDGE_WEB_JWT_AUDIENCE",),
    help="what `aud` of a token must be or contain; empty = a token must have none",
    read_by=_PAGE,
)

WEB_JWT_ROLE_CLAIM: Final = Setting(
    name="web_jwt_role_claim",
    parse=text("web_jwt_role_claim"),
    default="role",
    env=("KIQBRIDGE_WEB_JWT_ROLE_CLAIM",),
    help="claim of a token with roles or groups; realm_access.roles is one within another",
    read_by=_PAGE,
)

WEB_JWT_SIGNER: Final = Setting(
    name="web_jwt_signer",
    parse=text("web_jwt_signer"),
    default="",
    env=("KIQBRIDGE_WEB_JWT_SIGNER",),
    help="ARN of the load balancer that signs the tokens; needed with x-amzn-oidc-data, since all load balancers of a "
    "region share keys",
    read_by=_PAGE,
)

WEB_ROLES: Final = Setting(
    name="web_roles",
    parse=text("web_roles"),
    default="",
    default_text="the claim names the role itself; an ARN has none",
    env=("KIQBRIDGE_WEB_ROLES",),
    help="roles of groups in tokens and of ARNs, as ROLE=GLOB with commas between them, such as "
    "admin=ops-leads,viewer=arn:aws:sts::123456789012:assumed-role/Support/*",
    read_by=_PAGE,
)

WEB_HOSTS: Final = Setting(
    name="web_hosts",
    parse=words("web_hosts"),
    default="",
    default_text="names of loopback when it listens there, else all",
    env=("KIQBRIDGE_WEB_HOSTS",),
    help="host names under which the page is served, with commas between them; *.example.com stands for subdomains",
    read_by=_PAGE,
)

WEB_ORIGINS: Final = Setting(
    name="web_origins",
    parse=words("web_origins"),
    default="",
    env=("KIQBRIDGE_WEB_ORIGINS",),
    help="further addresses under which browsers see the page, such as http://localhost:8080 of a proxy that signs "
    "requests: forms may come from there; with commas between them",
    read_by=_PAGE,
)

WEB_PROXIES: Final = Setting(
    name="web_proxies",
    parse=words("web_proxies"),
    default="",
    env=("KIQBRIDGE_WEB_PROXIES",),
    help="addresses or networks of proxies whose X-Forwarded-For, -Proto and -Host count, with commas between them",
    read_by=_PAGE,
)

WEB_WRITES_PER_MINUTE: Final = Setting(
    name="web_writes_per_minute",
    parse=whole_number("web_writes_per_minute", 1),
    default=120,
    env=("KIQBRIDGE_WEB_WRITES_PER_MINUTE",),
    help="how many actions one caller may start in a minute, all of them at once if need be",
    read_by=_PAGE,
)

WEB_MAX_BODY_BYTES: Final = Setting(
    name="web_max_body_bytes",
    parse=whole_number("web_max_body_bytes", 1024),
    default=2_097_152,
    env=("KIQBRIDGE_WEB_MAX_BODY_BYTES",),
    help="largest request that is read, in bytes; an edited job must fit",
    read_by=_PAGE,
)

WEB_REDACT: Final = Setting(
    name="web_redact",
    parse=words("web_redact"),
    default="",
    default_text="those of redact",
    env=("KIQBRIDGE_WEB_REDACT",),
    help="names of arguments whose values the page hides, with commas between them; * stands for any letters",
    read_by=_PAGE,
)

WEB_SHOWS_ALL_TO: Final = Setting(
    name="web_shows_all_to",
    parse=choice("web_shows_all_to", *_ROLES, "nobody"),
    default="operator",
    env=("KIQBRIDGE_WEB_SHOWS_ALL_TO",),
    help="from which role on nothing is hidden: viewer, operator, admin, or nobody",
    read_by=_PAGE,
)

WEB_SETTINGS: Final = (
    WEB_HOST,
    WEB_PORT,
    WEB_ROLE,
    WEB_BASE_PATH,
    WEB_USERS,
    WEB_USERS_FILE,
    WEB_SECRET,
    WEB_SESSION_S,
    WEB_IAM,
    WEB_JWT_KEY,
    WEB_JWT_HEADER,
    WEB_JWT_ALGORITHMS,
    WEB_JWT_ISSUER,
    WEB_JWT_AUDIENCE,
    WEB_JWT_ROLE_CLAIM,
    WEB_JWT_SIGNER,
    WEB_ROLES,
    WEB_HOSTS,
    WEB_ORIGINS,
    WEB_PROXIES,
    WEB_WRITES_PER_MINUTE,
    WEB_MAX_BODY_BYTES,
    WEB_REDACT,
    WEB_SHOWS_ALL_TO,
)
