"""The security of the page by its settings."""

import pytest
from support.pages import Browser
from support.web_users import PASSWORD, SECRET, cheap_hash

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import HIDDEN
from kiqbridge.web import create_app
from kiqbridge.web.auth import Auth, User
from kiqbridge.web.security import read_security


def test_without_settings_everybody_may_look_and_nothing_else():
    security = read_security({})

    assert (security.most, security.hosts, security.proxies) == ("viewer", None, ())
    assert not security.auth.is_needed


def test_the_settings_are_those_of_the_environment(tmp_path):
    path = tmp_path / "users"
    path.write_text(f"vic:viewer:{cheap_hash()}\n")

    security = read_security(
        {
            "KIQBRIDGE_WEB_USERS": f"ann:admin:{cheap_hash()}",
            "KIQBRIDGE_WEB_USERS_FILE": str(path),
            "KIQBRIDGE_WEB_SECRET": SECRET.decode(),
            "KIQBRIDGE_WEB_JWT_KEY": "k" * 40,
            "KIQBRIDGE_WEB_JWT_ALGORITHMS": "HS256, HS512",
            "KIQBRIDGE_WEB_JWT_ISSUER": "https://id.example.com",
            "KIQBRIDGE_WEB_ROLES": "admin=ops",
            "KIQBRIDGE_WEB_HOSTS": "ops.example.com",
            "KIQBRIDGE_WEB_PROXIES": "10.0.0.0/8",
            "KIQBRIDGE_WEB_REDACT": "card*",
            "KIQBRIDGE_WEB_SHOWS_ALL_TO": "nobody",
        }
    )

    assert {name: user.role for name, user in security.auth.users.items()} == {
        "ann": "admin",
        "vic": "viewer",
    }
    assert security.most == "admin"
    assert security.auth.secret == SECRET
    assert security.auth.tokens.algorithms == ("HS256", "HS512")
    assert security.auth.tokens.issuer == "https://id.example.com"
    assert security.auth.roles.role_of(["ops"]) == "admin"
    assert security.hosts == ("ops.example.com",)
    assert [str(each) for each in security.proxies] == ["10.0.0.0/8"]
    assert security.redactor.value({"cardNumber": 4111}) == {"cardNumber": HIDDEN}
    assert security.hides_from("admin")


def test_the_command_line_goes_before_the_environment():
    environ = {"KIQBRIDGE_WEB_ROLE": "admin"}

    assert read_security(environ).most == "admin"
    assert read_security(environ, {"web_role": "operator"}).most == "operator"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"KIQBRIDGE_WEB_ROLE": "root"}, r"web_role: 'root' .*KIQBRIDGE_WEB_ROLE"),
        ({"KIQBRIDGE_WEB_USERS_FILE": "/nowhere"}, "'/nowhere' cannot be read: FileNotFoundError"),
        ({"KIQBRIDGE_WEB_PROXIES": "proxy"}, "web_proxies: 'proxy'"),
        ({"KIQBRIDGE_WEB_ROLES": "ops"}, "web_roles: 'ops' is not ROLE=GLOB"),
        (
            {"KIQBRIDGE_WEB_JWT_KEY": "x", "KIQBRIDGE_WEB_JWT_HEADER": "X-Amzn-Oidc-Data"},
            "set KIQBRIDGE_WEB_JWT_SIGNER to the ARN",
        ),
        (
            {"KIQBRIDGE_WEB_JWT_KEY": "x", "KIQBRIDGE_WEB_JWT_ALGORITHMS": "none"},
            "web_jwt_algorithms",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(environ, message):
    with pytest.raises(ConfigError, match=message):
        read_security(environ)


@pytest.mark.parametrize(
    ("shows_all_to", "hidden"),
    [
        ("viewer", set()),
        ("operator", {"viewer"}),
        ("admin", {"viewer", "operator"}),
        ("nobody", {"viewer", "operator", "admin"}),
    ],
)
def test_arguments_are_hidden_from_the_roles_below_the_one_of_the_setting(shows_all_to, hidden):
    security = read_security({"KIQBRIDGE_WEB_SHOWS_ALL_TO": shows_all_to})

    assert {role for role in ("viewer", "operator", "admin") if security.hides_from(role)} == hidden


def test_the_application_has_the_sign_in_of_its_argument_and_of_the_environment(
    operator, monkeypatch
):
    auth = Auth(users={"ann": User(role="admin", password_hash=cheap_hash())})
    by_argument = create_app(operator=operator, auth=auth)
    monkeypatch.setenv("KIQBRIDGE_WEB_USERS", f"ann:viewer:{cheap_hash()}")
    by_environment = create_app(operator=operator)

    for app in (by_argument, by_environment):
        browser = Browser(app)
        browser.headers["Accept"] = "text/html"
        page = browser.open("/queues")
        assert page.text.strip().startswith("Sign in")
        answer = browser.request(
            "POST", "/sign-in", data={**page.fields, "name": "ann", "password": PASSWORD}
        )
        assert "Queues" in answer.text and "ann" in answer.text


@pytest.mark.parametrize(
    "path", ["/static/../queues", "/static//../queues", "/static/../../app.py"]
)
def test_by_a_path_of_style_sheets_nobody_comes_elsewhere(operator, path):
    auth = Auth(users={"ann": User(role="admin", password_hash=cheap_hash())})
    app = create_app(operator=operator, auth=auth)

    async def as_sent(scope, receive, send):
        await app({**scope, "path": path}, receive, send)

    answer = Browser(as_sent).request("GET", "/")

    assert answer.status_code == 404
    assert "import" not in answer.text and "Latency" not in answer.text
