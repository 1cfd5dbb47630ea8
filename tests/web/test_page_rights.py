"""The rights that docs/reference/security.md asks for the page: all screens and actions work under them."""

import json

import pytest
from support.pages import Browser, Page
from support.rights import more_of_operators, rules_of
from support.running_system import fill

from kiqbridge.api import open_operator
from kiqbridge.seams import shipped
from kiqbridge.web import create_app

PAGES = (
    "/",
    "/queues",
    "/queues/mailers",
    "/retries",
    "/scheduled",
    "/dead",
    "/dead/groups",
    "/busy",
    "/schedules",
    "/metrics",
    "/processes",
    "/sources",
    "/audit",
)
OF_THE_LIBRARY = {"client|setinfo"}
"""redis-py names itself to the server, and copes when it may not."""


@pytest.fixture
def under(redis, redis_url):
    """A browser of the page whose Redis user has these rules."""
    opened = []

    def under(rules, role):
        redis.execute_command("ACL", "SETUSER", "page", "reset", "on", ">pw", *rules)
        redis.execute_command("ACL", "LOG", "RESET")
        opened.append(open_operator(redis_url.replace("redis://", "redis://page:pw@")))
        return Browser(create_app(operator=opened[-1], role=role))

    fill(redis_url, dead=3, queued=6)
    yield under
    for operator in opened:
        operator.client.close()
    redis.execute_command("ACL", "DELUSER", "page")


def refused(redis):
    return {entry["object"] for entry in redis.acl_log()} - OF_THE_LIBRARY


def pages(redis):
    jid = json.loads(redis.zrange("dead", 0, 0)[0])["jid"]
    return [*PAGES, f"/jobs/{jid}", "/dead?q=class:Nobody", "/search?q=class:Nobody"]


def test_a_page_for_viewers_needs_no_right_to_write(under, redis):
    browser = under(rules_of("kiqbridge-viewer"), "admin")
    before = redis.zcard("dead")

    statuses = {path: browser.request("GET", path).status_code for path in pages(redis)}
    missing = refused(redis)
    token = Page(browser.request("GET", "/queues/mailers")).fields["csrf"]
    answers = [
        browser.request("POST", path, data={"csrf": token, **form}).status_code
        for path, form in (
            ("/queues/mailers", {"action": "pause", "for_s": ""}),
            ("/dead", {"action": "delete", "all": "1", "confirmed": "1"}),
        )
    ]

    assert set(statuses.values()) == {200}, (refused(redis), statuses)
    assert missing == set()
    assert answers == [502, 502], "Redis refuses it, whatever the page lets through"
    assert redis.zcard("dead") == before
    of_features = [tab.path for each in shipped() for tab in each.tabs]
    assert {browser.request("GET", path).status_code for path in of_features} <= {200}


def test_an_operators_page_does_all_under_a_workers_rights_and_those_of_operators(under, redis):
    rules = [*rules_of("kiqbridge-worker"), *more_of_operators()]
    browser = under(rules, "admin")

    statuses = {path: browser.request("GET", path).status_code for path in pages(redis)}
    token = Page(browser.request("GET", "/queues/mailers")).fields["csrf"]
    answers = [
        browser.request("POST", path, data={"csrf": token, **form}).status_code
        for path, form in (
            ("/queues/mailers", {"action": "pause", "for_s": "", "reason": "test"}),
            ("/queues/mailers", {"action": "resume"}),
            ("/retries", {"action": "kill", "all": "1", "confirmed": "1"}),
            ("/dead", {"action": "retry", "all": "1", "confirmed": "1"}),
            ("/queues/mailers", {"action": "clear", "confirmed": "1"}),
        )
    ]

    assert set(statuses.values()) == {200}, (refused(redis), statuses)
    assert set(answers) == {200}
    assert refused(redis) == set()
    assert redis.zcard("dead") == redis.llen("queue:mailers") == 0
