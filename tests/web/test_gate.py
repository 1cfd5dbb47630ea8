"""The gate: roles, ways of sign-in, where a POST comes from, how often."""

import base64
import json
import time

import jwt
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from support.pages import ORIGIN, Browser
from support.web_users import PASSWORD, SECRET, cheap_hash

from kiqbridge.errors import ConfigError
from kiqbridge.web import limits
from kiqbridge.web.auth import Auth, User, parse_users
from kiqbridge.web.gate import protections
from kiqbridge.web.guard import RoleRules, csrf_token, requires
from kiqbridge.web.middleware import parse_networks
from kiqbridge.web.security import Security
from kiqbridge.web.tokens import TokenRules

USERS = {
    name: User(role=role, password_hash=cheap_hash())
    for name, role in (("ann", "admin"), ("otto", "operator"), ("vic", "viewer"))
}
PROXIES = parse_networks(["127.0.0.1"], "test")
ARN = "arn:aws:sts::123456789012:assumed-role/Ops/ann"
TOKENS = TokenRules(key=SECRET.decode(), algorithms=("HS256",), role_claim="groups")


def show(request):
    state = request.state
    return JSONResponse({"role": state.role, "by": state.by, "csrf": csrf_token(request)})


@requires("operator")
def act(request, form):
    return PlainTextResponse("done")


def app_of(security):
    routes = [
        Route("/", show),
        Route("/healthz", show),
        Route("/static/x.css", show),
        Route("/act", act, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=protections(security, by="me@here"))


@pytest.fixture
def no_attempt_comes_back(monkeypatch):
    """One comes back each 12 s: in the middle of a test, on a slow machine."""
    monkeypatch.setattr(limits, "ATTEMPTS_PER_S", 1e-6)


def browser_of(**options):
    return Browser(app_of(Security(**options)))


def basic(name, password=PASSWORD):
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def bearer(**claims):
    body = {"sub": "ann", "exp": time.time() + 60, **claims}
    return {"Authorization": f"Bearer {jwt.encode(body, SECRET.decode(), 'HS256')}"}


class Signed:
    """The application as Mangum calls it, with the event of an invocation."""

    def __init__(self, app, arn):
        self.app = app
        iam = {"userArn": arn, "accountId": "123456789012"}
        self.event = {"requestContext": {"authorizer": {"iam": iam}}}

    async def __call__(self, scope, receive, send):
        await self.app(scope | {"aws.event": self.event}, receive, send)


class TestWithoutSignIn:
    def test_everybody_is_a_viewer_unless_it_is_said_and_acts_in_the_name_of_the_process(self):
        found = browser_of().request("GET", "/").json()
        assert (found["role"], found["by"]) == ("viewer", "me@here")
        assert browser_of(role="admin").request("GET", "/").json()["role"] == "admin"


class TestPasswords:
    def test_a_name_and_a_password_have_the_users_role(self):
        browser = browser_of(auth=Auth(users=USERS))

        found = {name: browser.request("GET", "/", headers=basic(name)).json() for name in USERS}

        assert {name: (each["role"], each["by"]) for name, each in found.items()} == {
            "ann": ("admin", "ann"),
            "otto": ("operator", "otto"),
            "vic": ("viewer", "vic"),
        }

    def test_the_role_of_the_page_is_the_most_that_anybody_has(self):
        browser = browser_of(auth=Auth(users=USERS), role="operator")

        assert browser.request("GET", "/", headers=basic("ann")).json()["role"] == "operator"
        assert browser.request("GET", "/", headers=basic("vic")).json()["role"] == "viewer"

    @pytest.mark.parametrize(
        "headers",
        [
            basic("ann", "wrong"),
            basic("nobody"),
            basic("ann", ""),
            {"Authorization": "Basic"},
            {"Authorization": "Basic é".encode("latin-1")},
            {"Authorization": "Basic !!!"},
            {"Authorization": "Bearer x"},
            {},
        ],
    )
    def test_anything_else_is_not_let_in(self, headers):
        answer = browser_of(auth=Auth(users=USERS)).request("GET", "/", headers=headers)

        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")

    @pytest.mark.usefixtures("no_attempt_comes_back")
    def test_attempts_are_limited_and_a_right_password_does_not_count(self, caplog):
        browser = browser_of(auth=Auth(users=USERS))

        for _ in range(8):
            assert browser.request("GET", "/", headers=basic("ann")).status_code == 200
        codes = [
            browser.request("GET", "/", headers=basic("otto", f"guess{number}")).status_code
            for number in range(6)
        ]

        assert codes == [401] * 5 + [429]
        assert "wrong password for 'otto'" in caplog.text
        assert "guess" not in caplog.text and PASSWORD not in caplog.text
        # Who has proven it lately is not locked out by the others behind the same address.
        assert browser.request("GET", "/", headers=basic("ann")).status_code == 200

    @pytest.mark.usefixtures("no_attempt_comes_back")
    def test_all_addresses_of_a_64_are_one_and_names_are_limited_in_the_network_around(self):
        browser = browser_of(auth=Auth(users=USERS), proxies=PROXIES)

        def guesses(addresses):
            codes = [
                browser.request(
                    "GET", "/", headers=basic("ann", "guess") | {"X-Forwarded-For": each}
                ).status_code
                for each in addresses
            ]
            return codes.count(401), codes.count(429)

        assert guesses(f"2001:db8::{host:x}" for host in range(30)) == (5, 25)
        assert guesses(f"2001:db8:1:{network:x}::1" for network in range(30)) == (20, 10)
        assert guesses(f"203.0.113.{host}" for host in range(30)) == (20, 10)

    def test_a_post_with_a_password_needs_the_token_too(self):
        browser = browser_of(auth=Auth(users=USERS))
        token = browser.request("GET", "/", headers=basic("otto")).json()["csrf"]
        of_other = browser.request("GET", "/", headers=basic("ann")).json()["csrf"]

        codes = [
            browser.request("POST", "/act", headers=basic("otto"), data={"csrf": each}).status_code
            for each in (token, of_other, "")
        ]

        assert codes == [200, 403, 403]

    def test_health_and_style_sheets_are_open_and_nothing_else(self):
        browser = browser_of(auth=Auth(users=USERS))
        codes = [
            browser.request("GET", path).status_code
            for path in (
                "/healthz",
                "/static/x.css",
                "/healthz/",
                "/static",
                "/",
                "/prometheus",
                "//healthz",
            )
        ]

        assert codes == [200, 200, 401, 401, 401, 401, 401]


class TestTokens:
    def browser(self, **options):
        return browser_of(auth=Auth(tokens=TOKENS, **options))

    def test_a_group_of_the_token_has_a_role(self):
        browser = self.browser(roles=RoleRules.parse("operator=ops,viewer=*", "test"))

        one = browser.request("GET", "/", headers=bearer(groups=["ops"], email="ann@b.c")).json()
        other = browser.request("GET", "/", headers=bearer(groups=["hr"])).json()

        assert (one["role"], one["by"]) == ("operator", "ann@b.c")
        assert other["role"] == "viewer"

    def test_without_rules_the_claim_names_the_role(self):
        assert (
            self.browser().request("GET", "/", headers=bearer(groups=["admin"])).json()["role"]
            == "admin"
        )

    def test_a_token_without_a_role_is_known_but_not_allowed(self):
        answer = self.browser().request("GET", "/", headers=bearer(groups=["hr"]))

        assert answer.status_code == 403
        assert "have no role" in answer.text

    def test_a_token_that_is_refused_is_not_let_in(self):
        for headers in (
            bearer(exp=1),
            {"Authorization": "Bearer x"},
            {},
            bearer(sub="", groups="admin"),
        ):
            answer = self.browser().request("GET", "/", headers=headers)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


class TestIdentities:
    def test_the_arn_has_the_role_of_its_rule(self):
        rules = RoleRules.parse("admin=arn:aws:sts::123456789012:assumed-role/Ops/*", "test")
        app = app_of(Security(auth=Auth(is_iam=True, roles=rules)))

        found = Browser(Signed(app, ARN)).request("GET", "/").json()
        other = Browser(Signed(app, ARN.replace("/Ops/", "/Other/"))).request("GET", "/")

        assert (found["role"], found["by"]) == ("admin", ARN)
        assert other.status_code == 403
        assert Browser(app).request("GET", "/").status_code == 401

    def test_its_token_is_the_same_in_each_environment_with_the_same_secret(self):
        rules = RoleRules.parse("admin=*", "test")
        auth = Auth(is_iam=True, roles=rules, secret=SECRET)
        one, other = (Browser(Signed(app_of(Security(auth=auth)), ARN)) for _ in range(2))

        token = one.request("GET", "/").json()["csrf"]

        assert other.request("POST", "/act", data={"csrf": token}).status_code == 200
        assert not one.cookies

    def test_it_counts_only_when_it_was_asked_for(self):
        app = app_of(Security(auth=Auth(users=USERS, roles=RoleRules.parse("admin=*", "test"))))

        assert Browser(Signed(app, ARN)).request("GET", "/").status_code == 401


class TestWhereAPostComesFrom:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"{ORIGIN}.evil.example"},
            {"Origin": f"{ORIGIN}:81"},
            {"Origin": ""},
            {"Origin": "http://[::1"},
        ],
    )
    def test_from_another_page_it_is_refused_even_with_the_token(self, headers):
        browser = browser_of(role="operator")
        token = browser.request("GET", "/").json()["csrf"]

        answer = browser.request("POST", "/act", headers=headers, data={"csrf": token})

        assert answer.status_code == 403
        assert "Not from this page" in answer.text

    def test_a_program_that_sends_neither_header_needs_the_token(self):
        browser = browser_of(role="operator")
        browser.headers = {}
        token = browser.request("GET", "/").json()["csrf"]

        assert browser.request("POST", "/act", data={"csrf": token}).status_code == 200
        assert browser.request("POST", "/act", data={}).status_code == 403

    def test_from_an_address_of_the_settings_a_form_may_come(self):
        browser = browser_of(role="operator", origins=("http://localhost:8080/",))
        token = browser.request("GET", "/").json()["csrf"]
        codes = [
            browser.request(
                "POST", "/act", headers={"Origin": origin}, data={"csrf": token}
            ).status_code
            for origin in (
                "http://localhost:8080",
                "http://localhost:8081",
                "https://localhost:8080",
            )
        ]

        assert codes == [200, 403, 403]

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
    def test_every_method_but_reading_ones_is_looked_at(self, method):
        answer = browser_of(role="operator").request(
            method, "/act", headers={"Sec-Fetch-Site": "cross-site"}
        )

        assert answer.status_code == 403

    @pytest.mark.parametrize(
        ("dest", "mode", "status"),
        [
            ("image", "no-cors", 403),
            ("empty", "cors", 403),
            ("iframe", "navigate", 403),
            ("document", "navigate", 200),
        ],
    )
    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_another_site_opens_the_page_by_a_link_and_embeds_nothing_of_it(
        self, site, dest, mode, status
    ):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest, "Sec-Fetch-Mode": mode}

        assert browser_of().request("GET", "/", headers=headers).status_code == status


class TestHowOften:
    def test_writes_of_a_caller_are_limited_and_its_reads_and_others_are_not(self):
        browser = browser_of(auth=Auth(users=USERS), writes_per_minute=3)
        codes = []
        for _ in range(4):
            answer = browser.request("POST", "/act", headers=basic("otto"))
            codes.append(answer.status_code)

        assert codes == [403, 403, 403, 429]
        assert 1 <= int(answer.headers["Retry-After"]) <= 21
        assert browser.request("GET", "/", headers=basic("otto")).status_code == 200
        assert browser.request("POST", "/act", headers=basic("ann")).status_code == 403


class TestSettings:
    def test_users_are_read_with_comments_and_blank_lines(self):
        text = f"# ops\n\nann:admin:{cheap_hash()}\nvic:viewer:{cheap_hash()},otto:operator:{cheap_hash()}\n"

        users = parse_users(text, "test")

        assert {name: user.role for name, user in users.items()} == {
            "ann": "admin",
            "vic": "viewer",
            "otto": "operator",
        }
        assert "scrypt" not in repr(users)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("ann", "line 1 of test is not NAME:ROLE:HASH"),
            (f"ann:root:{cheap_hash()}", "'root' is none of"),
            ("ann:admin:hunter2", "the password of user 'ann' is no hash"),
            (f"ann:admin:{cheap_hash()},ann:viewer:{cheap_hash()}", "names a user twice"),
        ],
    )
    def test_a_user_that_is_none_is_refused_without_showing_a_password(self, text, message):
        with pytest.raises(ConfigError, match=message) as refusal:
            parse_users(text, "test")

        assert "hunter2" not in str(refusal.value)

    def test_a_short_secret_is_refused(self):
        with pytest.raises(ConfigError, match="web_secret: 5 bytes can be guessed"):
            protections(Security(auth=Auth(secret=b"short")), by="me")

    def test_neither_hashes_nor_keys_are_in_what_is_printed_of_the_settings(self):
        printed = repr(Security(auth=Auth(users=USERS, tokens=TOKENS, secret=SECRET)))

        assert "scrypt" not in printed and SECRET.decode() not in printed


def test_the_forms_token_is_json_for_nobody_else():
    """No answer allows another origin to read it."""
    answer = browser_of(role="admin").request(
        "GET", "/", headers={"Origin": "https://evil.example"}
    )

    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert json.loads(answer.text)["csrf"]
