"""Signing in by the form, and out again."""

import re

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from support.pages import Browser, Page
from support.web_users import PASSWORD, SECRET, cheap_hash

from kiqbridge.web.auth import Auth, User
from kiqbridge.web.gate import protections
from kiqbridge.web.middleware import parse_networks
from kiqbridge.web.security import Security

HTML = {"Accept": "text/html,application/xhtml+xml"}


def users(**passwords):
    return {
        name: User(role="operator", password_hash=cheap_hash(password))
        for name, password in passwords.items()
    }


def app_of(proxies=(), **options):
    def show(request):
        state = request.state
        return JSONResponse({"by": state.by, "csrf": state.csrf, "at": request.url.path})

    auth = Auth(secret=SECRET, **{"users": users(ann=PASSWORD), **options})
    routes = [Route("/", show), Route("/dead", show)]
    return Starlette(
        routes=routes, middleware=protections(Security(auth=auth, proxies=proxies), by="me")
    )


def browser_of(app=None, root_path=""):
    browser = Browser(app or app_of(), root_path)
    browser.headers |= HTML
    return browser


def sign_in(browser, name="ann", password=PASSWORD, at="/sign-in", **fields):
    page = Page(browser.request("GET", at))
    given = {**page.fields, "name": name, "password": password, **fields}
    return browser.request("POST", at.partition("?")[0], data=given)


def set_cookies(answer):
    return [
        value
        for each in (*answer.history, answer)
        for name, value in each.headers.multi_items()
        if name == "set-cookie"
    ]


def test_whoever_is_not_signed_in_comes_to_the_form_and_from_there_to_the_page():
    browser = browser_of()
    page = Page(browser.request("GET", "/dead?page=2&class=Mail"))
    assert page.text.strip().startswith("Sign in")

    answer = browser.request(
        "POST", "/sign-in", data={**page.fields, "name": "ann", "password": PASSWORD}
    )

    assert answer.json()["by"] == "ann"
    assert str(answer.url).endswith("/dead?page=2&class=Mail")


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites():
    browser = browser_of()

    [cookie] = [each for each in set_cookies(sign_in(browser)) if "Max-Age" in each]

    name, attributes = cookie.split("=", 1)[0], cookie.split("; ")[1:]
    assert re.fullmatch(r"kiqbridge_[0-9a-f]{16}", name)
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43199"} >= {
        each.replace("43200", "43199") for each in attributes
    }
    assert "Secure" not in attributes


def test_over_https_the_cookie_never_travels_without():
    app = app_of()

    async def over_https(scope, receive, send):
        await app(scope | {"scheme": "https"}, receive, send)

    browser = browser_of(over_https, "/ops")
    cookies = set_cookies(browser.request_once("GET", "/ops/sign-in"))

    assert re.match(r"__Host-kiqbridge_[0-9a-f]{16}=", cookies[0])
    assert "; Path=/;" in cookies[0] and "Domain" not in cookies[0]
    assert cookies[0].endswith("; Secure")


def test_signing_in_begins_a_new_session_and_the_one_before_is_worth_nothing():
    browser = browser_of()
    browser.request("GET", "/sign-in")
    before = dict(browser.cookies)

    sign_in(browser)

    assert dict(browser.cookies) != before
    old = browser_of(browser.app)
    old.cookies.update(before)
    assert set_cookies(old.request("GET", "/sign-in")), "it gets a new session"


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("", ""), ("ann\r\nX: y", "x")]
)
def test_a_wrong_name_or_password_is_refused_in_the_same_words(name, password, caplog):
    answer = sign_in(browser_of(), name, password)

    assert answer.status_code == 401
    assert "Name or password is wrong." in answer.text
    assert "\r" not in caplog.text and "failed to sign in as" in caplog.text
    assert PASSWORD not in caplog.text


def test_what_was_typed_is_shown_as_text_and_the_password_is_not():
    answer = sign_in(browser_of(), '"><script>x', "hunter2")

    assert "<script>" not in answer.text
    assert "hunter2" not in answer.text


def test_attempts_are_limited_by_address():
    browser = browser_of()

    answers = [sign_in(browser, password="wrong") for _ in range(6)]

    assert [each.status_code for each in answers] == [401] * 5 + [429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 13
    assert sign_in(browser).status_code == 429, "not even the right one, until the time is over"


def test_guesses_of_others_shut_out_neither_a_name_nor_who_has_signed_in_there_before():
    proxies = parse_networks(["127.0.0.1"], "test")
    app = app_of(users=users(ann=PASSWORD, bob=PASSWORD), proxies=proxies)

    def code(address, name="ann", password=PASSWORD):
        browser = browser_of(app)
        browser.headers |= {"X-Forwarded-For": address}
        return sign_in(browser, name, password).status_code

    assert code("198.51.100.1") == 200
    for network in range(6):
        for host in range(1, 5):
            assert code(f"203.0.{network}.{host}", password="wrong") == 401
    assert [code("198.51.100.1", "bob", "wrong") for _ in range(6)] == [401] * 5 + [429]

    assert code("192.0.2.9") == 200, "from an address that is new"
    assert code("198.51.100.1") == 200, "beside somebody who guesses at another name"
    assert code("198.51.100.1", "bob") == 429


def test_without_the_forms_token_nobody_is_signed_in():
    browser = browser_of()

    for token in ({}, {"csrf": "x"}):
        answer = browser.request(
            "POST", "/sign-in", data={"name": "ann", "password": PASSWORD, **token}
        )
        assert answer.status_code == 403
    assert Page(browser.request("GET", "/")).text.strip().startswith("Sign in")


def test_from_another_page_nobody_is_signed_in():
    browser = browser_of()
    fields = Page(browser.request("GET", "/sign-in")).fields

    answer = browser.request(
        "POST",
        "/sign-in",
        data={**fields, "name": "ann", "password": PASSWORD},
        headers={"Origin": "https://evil.example"},
    )

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/x\r\nSet-Cookie: a=b",
        "dead",
        "/\tx",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(place):
    browser = browser_of()

    answer = sign_in(browser, next=place)

    assert str(answer.url) == "http://testserver/"


def test_whoever_signs_out_is_out_also_with_the_old_cookie():
    browser = browser_of()
    token = sign_in(browser).json()["csrf"]
    cookie = dict(browser.cookies)

    answer = browser.request("POST", "/sign-out", data={"csrf": token})

    assert answer.url.path == "/sign-in"
    stolen = browser_of(browser.app)
    stolen.cookies.update(cookie)
    assert stolen.request("GET", "/").url.path == "/sign-in"


def test_nobody_is_signed_out_by_a_link_or_without_the_token():
    browser = browser_of()
    sign_in(browser)

    assert browser.request("GET", "/sign-out").status_code == 405
    assert browser.request("POST", "/sign-out", data={}).status_code == 403
    assert browser.request("GET", "/").json()["by"] == "ann"


@pytest.mark.parametrize("later", [users(ann="another"), users(bob=PASSWORD)])
def test_a_changed_password_or_a_removed_user_ends_the_session(later):
    browser = browser_of()
    sign_in(browser)

    after = browser_of(app_of(users=later))
    after.cookies = browser.cookies

    assert after.request("GET", "/").url.path == "/sign-in"


def test_a_program_that_is_not_signed_in_gets_an_answer_and_no_form():
    browser = browser_of()
    browser.headers["Accept"] = "application/json"

    assert browser.request("GET", "/").status_code == 401


def test_below_another_application_the_form_its_target_and_its_cookie_keep_the_base_path():
    browser = browser_of(Starlette(routes=[Mount("/ops/jobs", app_of())]))
    page = Page(browser.request("GET", "/ops/jobs/dead"))
    [form] = [given for tag, given in page.tags if tag == "form"]
    assert form["action"] == "/ops/jobs/sign-in"

    answer = browser.request(
        "POST", form["action"], data={**page.fields, "name": "ann", "password": PASSWORD}
    )

    assert str(answer.url) == "http://testserver/ops/jobs/dead"
    assert all("; Path=/ops/jobs;" in each for each in set_cookies(answer))


def test_signing_out_without_a_user_leaves_nothing_behind():
    browser = browser_of()
    fields = Page(browser.request("GET", "/sign-in")).fields

    for _ in range(3):
        assert browser.request("POST", "/sign-out", data=fields).url.path == "/sign-in"
        fields = Page(browser.request("GET", "/sign-in")).fields
