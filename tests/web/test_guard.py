"""What a screen asks of the guard, and that each one that changes something asks."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from support.pages import Browser

from kiqbridge.web.app import routes
from kiqbridge.web.gate import protections
from kiqbridge.web.guard import NEEDED_ROLE, ROLES, csrf_token, requires
from kiqbridge.web.security import Security


@requires("operator")
def act(request, form):
    return PlainTextResponse(f"done {form['name']}")


def client(role):
    app = Starlette(
        routes=[
            Route("/", lambda request: PlainTextResponse(csrf_token(request))),
            Route("/act", act, methods=["POST"]),
        ],
        middleware=protections(Security(role=role), by="ann"),
    )
    return Browser(app)


def test_a_viewer_changes_nothing_even_with_a_token():
    browser = client("viewer")
    token = browser.request("GET", "/").text

    assert browser.request("POST", "/act", data={"csrf": token}).status_code == 403


def routes_below(routes, path=""):
    for route in routes:
        if isinstance(route, Mount):
            yield from routes_below(route.routes or [], path + route.path)
        else:
            yield path + route.path, route


def unguarded(routes):
    return [
        path
        for path, route in routes_below(routes)
        if not (route.methods or set()) <= {"GET", "HEAD"}
        and (
            getattr(route.endpoint, NEEDED_ROLE, None) not in ROLES[1:] or route.methods != {"POST"}
        )
    ]


def test_every_path_that_takes_more_than_get_is_a_post_that_needs_a_role_and_a_token():
    assert unguarded(routes()) == []


@pytest.mark.parametrize(
    ("endpoint", "methods"),
    [
        (lambda request: None, ["POST"]),
        (requires("viewer")(lambda request, form: None), ["POST"]),
        (act, ["POST", "DELETE"]),
        (act, ["GET", "POST"]),
    ],
)
def test_one_that_does_not_is_found(endpoint, methods):
    routes = [
        Route("/x", act, methods=["POST"]),
        Mount("/a", routes=[Route("/b", endpoint, methods=methods)]),
    ]

    assert unguarded(routes) == ["/a/b"]
