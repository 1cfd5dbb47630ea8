"""Roles and tokens."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.pages import Browser

from kiqbridge.web.guard import Guard, allows, csrf_token, requires


@requires("operator")
def act(request, form):
    return PlainTextResponse(f"done {form['name']}")


def client(role):
    app = Starlette(
        routes=[
            Route("/", lambda request: PlainTextResponse(csrf_token(request))),
            Route("/act", act, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, role=role, by="ann")],
    )
    return Browser(app)


@pytest.mark.parametrize(
    ("role", "needed", "allowed"),
    [("viewer", "operator", False), ("operator", "operator", True), ("admin", "viewer", True)],
)
def test_a_role_may_what_the_lower_ones_may(role, needed, allowed):
    assert allows(role, needed) is allowed


def test_a_post_with_the_token_of_the_same_browser_is_carried_out():
    browser = client("operator")
    token = browser.request("GET", "/").text

    answer = browser.request("POST", "/act", data={"csrf": token, "name": "x"})

    assert (answer.status_code, answer.text) == (200, "done x")


def test_a_post_with_no_token_or_that_of_another_browser_is_refused():
    browser, other = client("operator"), client("operator")
    browser.request("GET", "/")

    for given in ({}, {"csrf": ""}, {"csrf": other.request("GET", "/").text}, {"csrf": "é"}):
        assert browser.request("POST", "/act", data=given).status_code == 403


def test_a_viewer_changes_nothing_even_with_a_token():
    browser = client("viewer")
    token = browser.request("GET", "/").text

    assert browser.request("POST", "/act", data={"csrf": token}).status_code == 403
