"""A live page: what is sent of it, to whom, and how it ends."""

import json
import signal
import time
import urllib.request
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import Browser, Page
from support.web_jobs import failed
from support.web_process import WebProcess
from support.web_users import PASSWORD, SECRET, cheap_hash

from kiqbridge.web import create_app
from kiqbridge.web.auth import Auth, User
from kiqbridge.web.pages import live
from kiqbridge.web.pages.live import Streams, patches_of

LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=12)


def patched(lines, patches):
    lines = list(lines)
    for place, gone, come in patches:
        lines[place : place + gone] = come
    return lines


@given(LINES, LINES)
def test_patches_make_the_lines_after_out_of_those_before(before, after):
    assert patched(before, patches_of(before, after)) == after


def test_what_is_the_same_is_not_sent_and_a_changed_line_alone_is():
    assert patches_of(["a", "b", "c"], ["a", "b", "c"]) == []
    assert patches_of(["a", "b", "c"], ["a", "x", "c"]) == [(1, 1, ["x"])]


@pytest.fixture
def once(browser):
    """The page is sent once, as a Lambda function does."""
    site = browser.app.state.site
    browser.app.state.site = replace(site, streams=Streams())
    browser.app.state.site.streams.longest_s = 0.0
    return browser


def events(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_the_first_event_is_the_page_as_it_is_without_a_script(once, redis):
    redis.zadd("dead", {failed("a"): time.time() - 300_000})

    once.open("/dead")  # has the cookie of forms
    answer = once.request("GET", "/live?every=3&page=/dead%3Fq=class:Mail")

    assert answer.headers["content-type"].startswith("text/event-stream")
    [patches] = events(answer)
    page = once.request("GET", "/dead?q=class:Mail").text
    mains = [
        text.partition("<main")[2].partition("</main>")[0]
        for text in ("\n".join(patched([], patches)), page)
    ]
    assert mains[0] == mains[1] != ""


@pytest.mark.parametrize(
    "query", ["", "page=/dead", "every=3&page=//x.example", "every=x&page=/", "every=3&page=/live"]
)
def test_a_stream_of_nothing_is_refused(once, query):
    answer = once.request("GET", f"/live?{query}")

    assert answer.status_code == 400 or "Not found" in answer.text


def test_there_are_only_so_many(once, monkeypatch):
    monkeypatch.setattr(live, "MOST", 0)

    answer = once.request("GET", "/live?every=3&page=/")

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")


def test_whoever_may_look_no_more_gets_nothing_more(operator, monkeypatch):
    ann = User(role="operator", password_hash=cheap_hash(PASSWORD))
    known = {"ann": ann, "bob": ann}
    browser = Browser(create_app(operator=operator, auth=Auth(secret=SECRET, users=known)))
    browser.headers["Accept"] = "text/html"
    form = Page(browser.request("GET", "/sign-in")).fields
    browser.request("POST", "/sign-in", data={**form, "name": "ann", "password": PASSWORD})

    def patches(before, after):
        known.pop("ann", None)  # while the first event is made
        return patches_of(before, after)

    monkeypatch.setattr(live, "patches_of", patches)
    monkeypatch.setattr(live, "EVERY_S", (0.01, 60.0))
    answer = browser.request("GET", "/live?every=0.01&page=/queues")

    assert len(events(answer)) == 1
    assert answer.text.endswith("event: reload\ndata:\n\n")


def test_changes_are_sent_as_lines_and_the_end_of_the_server_ends_the_stream(redis, redis_url):
    redis.sadd("queues", "mail")
    with WebProcess(redis_url=redis_url) as process:
        address = f"{process.address}live?every=3&page=/queues"
        with urllib.request.urlopen(address, timeout=30) as stream:
            lines = (line.decode() for line in stream)
            first = next(line for line in lines if line.startswith("data: "))
            redis.lpush("queue:mail", "{}")
            change = next(line for line in lines if line.startswith("data: ") and "<td" in line)
            asked = time.monotonic()
            process.signal(signal.SIGTERM)
            rest = list(lines)
        ended_s = time.monotonic() - asked

    assert len(change) < len(first) / 2
    assert ended_s < 3, rest  # at once, and not by the time that a slow answer has
