"""The application around its screens: base path, notices, zone, colours, errors, static files."""

import re

import pytest
from starlette.requests import Request
from support.pages import Browser
from support.running_system import System, fill_schedules

from kiqbridge.errors import ConfigError
from kiqbridge.web import create_app
from kiqbridge.web.context import FOLDER, url


def request_below(root_path):
    return Request({"type": "http", "root_path": root_path, "path": "/", "headers": []})


@pytest.mark.parametrize(
    ("root_path", "path", "query", "address"),
    [
        ("", "/dead", {}, "/dead"),
        ("/ops", "/dead", {"page": 2, "class": "Mail"}, "/ops/dead?page=2&class=Mail"),
        ("/ops/", "/dead", {"class": "", "tag": None}, "/ops/dead"),
        ("", "/queues/a b?c/d", {}, "/queues/a%20b%3Fc/d"),
        ("", "/queues/\udcff", {"text": "\udcfe&é"}, "/queues/%FF?text=%FE%26%C3%A9"),
    ],
)
def test_an_address_is_below_the_base_path_and_quoted(root_path, path, query, address):
    assert url(request_below(root_path), path, **query) == address


def test_the_header_names_redis_without_password_the_environment_and_who_looks(browser, operator):
    page = browser.open("/queues")

    assert operator.pool.address in page.text
    assert "test" in page.text
    assert "ann@example.com admin" in page.text


def test_a_page_has_a_skip_link_one_heading_and_marks_where_it_is(browser):
    page = browser.open("/queues")

    assert page.links[0] == "#main"
    assert ("main", "main") in [(tag, given.get("id")) for tag, given in page.tags]
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    here = {
        given["aria-current"]: given["href"] for _, given in page.tags if "aria-current" in given
    }
    assert here == {"true": "/queues", "page": "/queues"}  # of the group Jobs, and itself


def test_what_was_done_is_shown_once_as_text(browser):
    page = browser.send("/queues/<b>mail<%2Fb>", action="resume")

    assert "<b>mail</b> was not paused." in page.text
    assert "<b>" not in page.html
    assert "was not paused" not in browser.open("/queues").text


def test_nobody_else_can_say_what_was_done(browser, operator):
    assert "evil" not in browser.open("/queues?notice=evil").text
    other = Browser(create_app(operator=operator, role="operator"))
    token = other.open("/queues/x").fields["csrf"]
    answer = other.request_once("POST", "/queues/evil", data={"csrf": token, "action": "resume"})
    assert "notice=" not in answer.headers["location"]

    for value in (other.cookies["kiqbridge_notice"], "evil", "ZXZpbA.ZXZpbA", "é"):
        mine = Browser(browser.app)
        mine.headers["Cookie"] = f"kiqbridge_notice={value}".encode("latin-1")
        assert "evil" not in mine.open("/queues").text


@pytest.mark.parametrize("name", ["Asia/Tokyo", "Asia%2FTokyo"])  # our script quotes it
def test_times_are_in_the_zone_that_the_viewer_chose(browser, name):
    browser.cookies.set("kiqbridge_zone", name)

    assert re.search(r"Read \d{4}-\d\d-\d\d \d\d:\d\d:\d\d JST", browser.open("/queues").text)


@pytest.mark.parametrize("name", ["../../etc/passwd", "Nowhere/Else", "\x00", "UTC"])
def test_a_zone_that_is_none_is_utc(browser, name):
    page = Browser(browser.app)
    page.headers["Cookie"] = f"kiqbridge_zone={name}".encode("latin-1")

    assert re.search(r"Read [-0-9]+ [:0-9]+ UTC", page.open("/queues").text)


@pytest.mark.parametrize(("theme", "kept"), [("dark", "dark"), ("light", "light"), ("pink", None)])
def test_the_colours_that_the_viewer_chose_stay(browser, theme, kept):
    browser.cookies.set("kiqbridge_theme", theme)

    [given] = [given for tag, given in browser.open("/queues").tags if tag == "html"]

    assert given.get("data-theme") == kept


def test_without_redis_a_page_says_so_and_what_was_tried():
    app = create_app("redis://:hunter2@127.0.0.1:1/0", environment="")

    page = Browser(app).open("/queues", status=503)

    assert "Redis does not answer" in page.text
    assert "127.0.0.1:1" in page.text
    assert "hunter2" not in page.html


def test_a_key_of_another_type_is_a_page_with_redis_own_words(browser, redis):
    redis.set("queues", "no set")

    assert "WRONGTYPE" in browser.open("/queues", status=502).text


def test_a_wrong_role_is_refused_when_the_application_is_made(operator):
    with pytest.raises(ConfigError, match="role: 'root' is none of viewer, operator, admin"):
        create_app(operator=operator, role="root")


@pytest.mark.parametrize("name", [path.name for path in (FOLDER / "static").iterdir()])
def test_a_static_file_is_served(browser, name):
    assert browser.request("GET", f"/static/{name}").status_code == 200


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        ("/queues", "There are no queues. No job was ever pushed"),
        ("/queues/mail", "No job waits in this queue."),
        ("/busy", "Nothing runs. No process lives: start a worker"),
        ("/processes", "No process lives. Nothing performs jobs until a worker is started"),
        ("/schedules", "No schedule is known to this Redis. Declare one"),
        *((path, " is empty. No ") for path in ("/retries", "/scheduled", "/dead")),
    ],
)
@pytest.mark.usefixtures("redis")
def test_what_is_empty_says_what_that_means(browser, path, meaning):
    assert meaning in browser.open(path).text


@pytest.mark.parametrize(
    ("path", "meaning"),
    [("/nowhere", "Not found"), ("/schedules/gone", "No schedule is named gone")],
)
@pytest.mark.usefixtures("redis")
def test_what_is_unknown_is_a_page_that_says_so(browser, path, meaning):
    assert meaning in browser.open(path, status=404).text


@pytest.mark.parametrize("path", ["/processes", "/busy", "/schedules", "/schedules/invoices"])
@pytest.mark.usefixtures("system")
def test_who_may_only_look_sees_no_button(viewer, redis, operator, path):
    fill_schedules(System(server=redis), operator.client)

    page = viewer.open(path)

    assert "post" not in [given.get("method") for tag, given in page.tags if tag == "form"]
