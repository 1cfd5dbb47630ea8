"""The rows of the table that the web page alone reads: `kiqbridge web`, the web function, a mounted page."""

from typing import Final

from kiqbridge.config.parsers import choice, seconds, switch, whole_number, words
from kiqbridge.config.setting import Reader, Setting, rows

_ROLES: Final = ("viewer", "operator", "admin")


class ForWeb:
    """Settings of the web page."""

    READ_BY: Final[tuple[Reader, ...]] = ("web",)

    web_host = Setting(
        default="127.0.0.1",
        option="--host HOST",
        help="address of `kiqbridge web`; another than loopback needs web_users, web_users_file or web_jwt_key",
    )

    web_port = Setting(
        parse=whole_number(0, 65_535),
        default=0,
        option="--port INT",
        help="port of `kiqbridge web`; 0 = one that is free",
    )

    web_role = Setting(
        parse=choice(*_ROLES),
        default=None,
        default_text="viewer; with sign-in each one's own",
        option="--role viewer|operator|admin",
        help="role of every user without sign-in; with sign-in the highest role of a user",
    )

    web_base_path = Setting(
        option="--base-path /PATH", help="path under which a proxy or gateway shows the page"
    )

    web_users = Setting(
        help="users with a password, as NAME:ROLE:HASH; `kiqbridge web --hash-password` makes a hash"
    )

    web_users_file = Setting(help="file with such users, one a line")

    web_secret = Setting(
        default_text="random, so that a restart ends all sessions",
        help="key that signs sessions and forms, from 32 bytes; the same for all processes of one page",
    )

    web_session_s = Setting(
        parse=seconds(least=60),
        default=43_200,
        help="seconds after which a user must sign in again; from 60",
    )

    web_iam = Setting(
        parse=switch,
        default=False,
        help="true = the AWS identity counts that API Gateway or the Function URL has verified; web_roles gives it"
        " a role",
    )

    web_jwt_key = Setting(
        help="key that verifies tokens (JWT): a PEM or JWKS, a file with one, an https address of a JWKS, or one "
        "with {kid} of a PEM for each key; empty = no tokens"
    )

    web_jwt_header = Setting(
        default="Authorization",
        help="request header with the token, such as x-amzn-oidc-data; in Authorization it stands after Bearer",
    )

    web_jwt_algorithms = Setting(
        parse=words, default="RS256,ES256,EdDSA", help="algorithms of signatures that are accepted"
    )

    web_jwt_issuer = Setting(
        help="required value of `iss` in a token; empty = `iss` is not checked"
    )

    web_jwt_audience = Setting(
        help="value that `aud` of a token must be or contain; empty = a token must have none"
    )

    web_jwt_role_claim = Setting(
        default="role",
        help="claim of a token with roles or groups; realm_access.roles is one within another",
    )

    web_jwt_signer = Setting(
        help="ARN of the load balancer that signs the tokens; required with x-amzn-oidc-data"
    )

    web_roles = Setting(
        default_text="the claim names the role itself; an ARN has none",
        help="roles of groups in tokens and of ARNs, as ROLE=GLOB, such as admin=ops-"
        "leads,viewer=arn:aws:sts::123456789012:assumed-role/Support/*",
    )

    web_hosts = Setting(
        parse=words,
        default_text="names of loopback when it listens there, else all",
        help="host names under which the page is served; *.example.com stands for subdomains",
    )

    web_origins = Setting(
        parse=words,
        help="further addresses from which forms may come, such as http://localhost:8080 of a proxy that signs requests",
    )

    web_proxies = Setting(
        parse=words,
        help="addresses or networks of proxies whose X-Forwarded-For, -Proto and -Host count",
    )

    web_writes_per_minute = Setting(
        parse=whole_number(1), default=120, help="actions that one caller may start in a minute"
    )

    web_max_body_bytes = Setting(
        parse=whole_number(1024),
        default=2_097_152,
        help="largest request that is read, in bytes; an edited job must fit",
    )

    web_redact = Setting(
        parse=words,
        default_text="those of redact",
        help="names of arguments whose values the page hides; * stands for any letters",
    )

    web_shows_all_to = Setting(
        parse=choice(*_ROLES, "nobody"),
        default="operator",
        help="lowest role from which nothing is hidden: viewer, operator, admin or 'nobody'",
    )

    web_shows_args_to = Setting(
        parse=choice(*_ROLES, "nobody"),
        default="operator",
        help="lowest role that is shown the arguments of jobs: the same",
    )


WEB_SETTINGS: Final = rows(ForWeb)
