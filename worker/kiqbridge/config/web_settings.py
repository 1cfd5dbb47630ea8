"""The rows of the table that the web page alone reads: `kiqbridge web`, the web function, a mounted page."""

from typing import Final

from kiqbridge.config.parsers import choice, seconds, switch, whole_number, words
from kiqbridge.config.setting import Rows

_ROLES: Final = ("viewer", "operator", "admin")

WEB_SETTINGS: Final = Rows("web")

WEB_HOST: Final = WEB_SETTINGS.add(
    name="web_host",
    default="127.0.0.1",
    flags=("--host",),
    metavar="HOST",
    help="address on which `kiqbridge web` listens; another than loopback needs web_users, web_users_file or web_jwt_key",
)

WEB_PORT: Final = WEB_SETTINGS.add(
    name="web_port",
    parse=whole_number("web_port", 0, 65_535),
    default=0,
    flags=("--port",),
    metavar="INT",
    help="port of `kiqbridge web`; 0 = one that is free",
)

WEB_ROLE: Final = WEB_SETTINGS.add(
    name="web_role",
    parse=choice("web_role", *_ROLES),
    default=None,
    default_text="viewer; with sign-in each one's own",
    flags=("--role",),
    metavar="viewer|operator|admin",
    help="what everybody may do without sign-in; with sign-in the most that anybody may do",
)

WEB_BASE_PATH: Final = WEB_SETTINGS.add(
    name="web_base_path",
    flags=("--base-path",),
    metavar="/PATH",
    help="path under which a proxy or gateway shows the page, whether or not it takes it off; for `kiqbridge web` and "
    "the web function",
)

WEB_USERS: Final = WEB_SETTINGS.add(
    name="web_users",
    help="users who sign in with a password, as NAME:ROLE:HASH with commas between them; `kiqbridge web --hash-password` "
    "makes a hash",
)

WEB_USERS_FILE: Final = WEB_SETTINGS.add(
    name="web_users_file",
    help="file with such users, one a line",
)

WEB_SECRET: Final = WEB_SETTINGS.add(
    name="web_secret",
    default_text="random, so that a restart ends all sessions",
    help="key that signs sessions and the tokens of forms, from 32 bytes; the same for all processes of one page",
)

WEB_SESSION_S: Final = WEB_SETTINGS.add(
    name="web_session_s",
    parse=seconds("web_session_s", least=60),
    default=43_200,
    help="seconds after which somebody who signed in must do so again; from 60",
)

WEB_IAM: Final = WEB_SETTINGS.add(
    name="web_iam",
    parse=switch("web_iam"),
    default=False,
    help="true = the AWS identity counts that API Gateway or the Function URL has verified; web_roles gives it a role",
)

WEB_JWT_KEY: Final = WEB_SETTINGS.add(
    name="web_jwt_key",
    help="key that verifies tokens (JWT): a PEM or JWKS, a file with one, an https address of a JWKS, or one with {kid} "
    "of a PEM for each key; empty = tokens are not looked at",
)

WEB_JWT_HEADER: Final = WEB_SETTINGS.add(
    name="web_jwt_header",
    default="Authorization",
    help="request header with the token, such as x-amzn-oidc-data; in Authorization it stands after Bearer",
)

WEB_JWT_ALGORITHMS: Final = WEB_SETTINGS.add(
    name="web_jwt_algorithms",
    parse=words("web_jwt_algorithms"),
    default="RS256,ES256,EdDSA",
    help="algorithms of signatures that are accepted, with commas between them",
)

WEB_JWT_ISSUER: Final = WEB_SETTINGS.add(
    name="web_jwt_issuer",
    help="what `iss` of a token must be; empty = not looked at",
)

WEB_JWT_AUDIENCE: Final = WEB_SETTINGS.add(
    name="web_jwt_audience",
    help="what `aud` of a token must be or contain; empty = a token must have none",
)

WEB_JWT_ROLE_CLAIM: Final = WEB_SETTINGS.add(
    name="web_jwt_role_claim",
    default="role",
    help="claim of a token with roles or groups; realm_access.roles is one within another",
)

WEB_JWT_SIGNER: Final = WEB_SETTINGS.add(
    name="web_jwt_signer",
    help="ARN of the load balancer that signs the tokens; needed with x-amzn-oidc-data, since all load balancers of a "
    "region share keys",
)

WEB_ROLES: Final = WEB_SETTINGS.add(
    name="web_roles",
    default_text="the claim names the role itself; an ARN has none",
    help="roles of groups in tokens and of ARNs, as ROLE=GLOB with commas between them, such as "
    "admin=ops-leads,viewer=arn:aws:sts::123456789012:assumed-role/Support/*",
)

WEB_HOSTS: Final = WEB_SETTINGS.add(
    name="web_hosts",
    parse=words("web_hosts"),
    default_text="names of loopback when it listens there, else all",
    help="host names under which the page is served, with commas between them; *.example.com stands for subdomains",
)

WEB_ORIGINS: Final = WEB_SETTINGS.add(
    name="web_origins",
    parse=words("web_origins"),
    help="further addresses under which browsers see the page, such as http://localhost:8080 of a proxy that signs "
    "requests: forms may come from there; with commas between them",
)

WEB_PROXIES: Final = WEB_SETTINGS.add(
    name="web_proxies",
    parse=words("web_proxies"),
    help="addresses or networks of proxies whose X-Forwarded-For, -Proto and -Host count, with commas between them",
)

WEB_WRITES_PER_MINUTE: Final = WEB_SETTINGS.add(
    name="web_writes_per_minute",
    parse=whole_number("web_writes_per_minute", 1),
    default=120,
    help="how many actions one caller may start in a minute, all of them at once if need be",
)

WEB_MAX_BODY_BYTES: Final = WEB_SETTINGS.add(
    name="web_max_body_bytes",
    parse=whole_number("web_max_body_bytes", 1024),
    default=2_097_152,
    help="largest request that is read, in bytes; an edited job must fit",
)

WEB_REDACT: Final = WEB_SETTINGS.add(
    name="web_redact",
    parse=words("web_redact"),
    default_text="those of redact",
    help="names of arguments whose values the page hides, with commas between them; * stands for any letters",
)

WEB_SHOWS_ALL_TO: Final = WEB_SETTINGS.add(
    name="web_shows_all_to",
    parse=choice("web_shows_all_to", *_ROLES, "nobody"),
    default="operator",
    help="from which role on nothing is hidden: viewer, operator, admin, or nobody",
)
