"""Headers of each answer, and what is shown of a fault."""

import re

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.pages import Browser

from kiqbridge.web.gate import protections
from kiqbridge.web.security import Security


def fail(request):
    raise RuntimeError("secret detail")


def app():
    routes = [
        Route("/", lambda request: PlainTextResponse("x")),
        Route("/static/x.css", lambda request: PlainTextResponse("x")),
        Route("/fail", fail),
    ]
    security = Security(hosts=("testserver",), max_body_bytes=2000)
    return Starlette(routes=routes, middleware=protections(security, by="me"))


ANSWERS = {
    "a page": ("GET", "/", {}, 200),
    "an unknown path": ("GET", "/nowhere", {}, 404),
    "a fault": ("GET", "/fail", {}, 500),
    "a wrong host": ("GET", "/", {"Host": "evil.example"}, 421),
    "a foreign form": ("POST", "/", {"Origin": "https://evil.example"}, 403),
    "a large form": ("POST", "/", {"Content-Length": "3000"}, 413),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_every_answer_has_the_headers(what):
    method, path, headers, status = ANSWERS[what]

    answer = Browser(app()).request(method, path, headers=headers)

    assert answer.status_code == status
    assert dict(answer.headers) | {
        "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
        "img-src 'self'; font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cache-control": "no-store",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    } == dict(answer.headers)
    assert "camera=()" in answer.headers["permissions-policy"]
    assert "strict-transport-security" not in answer.headers


def test_over_https_browsers_are_to_stay_there():
    served = app()

    async def over_https(scope, receive, send):
        await served(scope | {"scheme": "https"}, receive, send)

    answer = Browser(over_https).request("GET", "/")

    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_style_sheets_may_be_kept_for_a_while():
    assert Browser(app()).request("GET", "/static/x.css").headers["cache-control"] == "max-age=300"
    assert Browser(app()).request("GET", "/static/y.css").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_of_a_fault_only_its_id_is_shown_and_the_log_has_it(accept, caplog):
    answer = Browser(app()).request("GET", "/fail", headers={"Accept": accept})

    fault = re.search(r"at fault ([0-9a-f]{12})\.", answer.text)[1]
    assert "secret detail" not in answer.text and "Traceback" not in answer.text
    [record] = caplog.records
    assert fault in record.getMessage()
    assert "secret detail" in record.exc_text
