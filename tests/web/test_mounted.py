"""The page within other ASGI applications: every link, form, style sheet and redirect stays below its path."""

import re

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router
from support.pages import Browser, Page
from support.web_users import PASSWORD, cheap_hash

from kiqbridge.web import create_app
from kiqbridge.web.auth import Auth, User
from kiqbridge.web.middleware import below as at_base_path

PATHS = (
    "/",
    "/queues",
    "/queues/default",
    "/retries",
    "/scheduled",
    "/dead",
    "/busy",
    "/schedules",
)
ADDRESS = re.compile(r'(?:href|src|action)="([^"#]+)"')


class RootPathApp:
    """A framework such as FastAPI behind a proxy: `root_path` comes from the server, the proxy has taken it off."""

    def __init__(self, app, root_path):
        self.app = app
        self.root_path = root_path

    async def __call__(self, scope, receive, send):
        await self.app(
            {**scope, "root_path": self.root_path, "path": self.root_path + scope["path"]},
            receive,
            send,
        )


def below(page):
    """The page mounted as users do it; each with the prefix of its links."""
    other = Route("/other", lambda request: PlainTextResponse("theirs"))
    mounted = Starlette(routes=[other])
    mounted.mount("/jobs", page)
    deep = Starlette(
        routes=[Mount("/a", routes=[Mount("/b", app=Router([Mount("/jobs", app=page)]))])]
    )
    by_host = Starlette(routes=[Host("testserver", app=page)])
    return {
        "app.mount": (mounted, "/jobs", "/jobs"),
        "nested mounts": (deep, "/a/b/jobs", "/a/b/jobs"),
        "a host of its own": (by_host, "", ""),
        "a proxy that takes the path off": (RootPathApp(page, "/ops"), "", "/ops"),
        "mounted, behind such a proxy": (RootPathApp(mounted, "/ops"), "/jobs", "/ops/jobs"),
        "a base path of the settings": (at_base_path("/ops", page), "", "/ops"),
        "the same, not taken off": (at_base_path("/ops", page), "/ops", "/ops"),
    }


WAYS = tuple(below(Starlette()))


def cookie_of(answer):
    """Sent by hand: its path is the one that a browser sees, before the proxy takes a part off."""
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def jobs(redis):
    redis.sadd("queues", "default")
    redis.lpush(
        "queue:default",
        '{"class":"A","args":[1],"jid":"0123456789abcdef01234567","queue":"default"}',
    )
    redis.zadd(
        "dead",
        {
            '{"class":"A","args":[],"jid":"dead56789abcdef012345678","queue":"default"}': 1_700_000_000
        },
    )


def served(browser, path):
    """Of the paths those that this version of the page has."""
    answer = browser.request("GET", path)
    return answer if answer.status_code == 200 else None


@pytest.mark.parametrize("way", WAYS)
def test_every_address_of_a_page_is_below_its_path_and_is_there(operator, jobs, way):
    outer, inner, base = below(create_app(operator=operator, role="admin"))[way]
    browser = Browser(outer)
    addresses = set()
    for path in PATHS:
        answer = served(browser, inner + path)
        addresses |= set(ADDRESS.findall(answer.text)) if answer else set()

    assert len(addresses) > 8
    assert [each for each in addresses if not each.startswith((f"{base}/", "?"))] == []
    for each in sorted(address for address in addresses if "/static/" in address):
        assert browser.request("GET", inner + each.removeprefix(base)).status_code == 200


@pytest.mark.parametrize("way", WAYS)
def test_a_form_is_sent_and_leads_back_below_the_path(operator, jobs, redis, way):
    outer, inner, base = below(create_app(operator=operator, role="admin"))[way]
    browser = Browser(outer)
    form = browser.request_once("GET", f"{inner}/queues/default")
    page = Page(form)

    answer = browser.request_once(
        "POST",
        f"{inner}/queues/default",
        data={"csrf": page.fields["csrf"], "action": "pause", "for_s": "", "reason": "test"},
        headers=cookie_of(form),
    )

    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].startswith(f"{base}/queues")
    assert redis.hexists("kb:paused", "queue:default")


@pytest.mark.parametrize("way", WAYS)
def test_signing_in_stays_below_the_path(operator, way):
    auth = Auth(users={"ann": User(role="admin", password_hash=cheap_hash())})
    outer, inner, base = below(create_app(operator=operator, auth=auth))[way]
    browser = Browser(outer)
    browser.headers["Accept"] = "text/html"

    first = browser.request_once("GET", f"{inner}/dead")
    assert first.headers["location"] == f"{base}/sign-in?next=/dead"
    form = browser.request_once("GET", f"{inner}/sign-in?next=/dead")
    assert f'action="{base}/sign-in"' in form.text
    assert f"; Path={base or '/'};" in form.headers["set-cookie"]
    fields = {**Page(form).fields, "name": "ann", "password": PASSWORD}
    # The cookie is of the path that the browser sees.
    cookie = form.headers["set-cookie"].partition(";")[0]
    done = browser.request_once("POST", f"{inner}/sign-in", data=fields, headers={"Cookie": cookie})

    assert (done.status_code, done.headers["location"]) == (303, f"{base}/dead")


def test_what_is_beside_it_is_untouched(operator):
    outer, _, _ = below(create_app(operator=operator))["app.mount"]
    answer = Browser(outer).request("GET", "/other")

    assert answer.text == "theirs"
    assert "content-security-policy" not in answer.headers


def test_what_the_application_around_it_has_put_into_the_request_stays(operator):
    class Tenant:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            scope.setdefault("state", {})["tenant"] = "shop"
            await self.app(scope, receive, send)
            assert scope["state"]["tenant"] == "shop"

    outer = Starlette(
        routes=[Mount("/jobs", create_app(operator=operator))], middleware=[Middleware(Tenant)]
    )

    assert Browser(outer).request("GET", "/jobs/queues").status_code == 200
