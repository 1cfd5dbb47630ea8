"""The pages with several shards: the sum and each shard, a switch, actions where a job lies, one that is away."""

import json

import pytest
from support.pages import Browser
from support.servers import embedded_server
from support.shards import sharded

from kiqbridge.api import Queue, RetrySet, open_operator
from kiqbridge.web import create_app
from kiqbridge.web.pages.selection import entry_token, queued_token

SCREENS = [
    "/",
    "/queues",
    "/queues/default",
    "/busy",
    "/retries",
    "/retries/groups",
    "/scheduled",
    "/dead",
    "/processes",
    "/schedules",
    "/metrics",
    "/audit",
    "/sources",
    "/doctor",
]


def text(jid, queue="default"):
    return json.dumps({"class": "Work", "args": [1], "jid": jid, "queue": queue, "retry_count": 0})


def fill(raw, name):
    raw.sadd("queues", "default")
    raw.lpush("queue:default", text(f"q-{name}"))
    raw.zadd("retry", {text(f"r-{name}"): 1})
    process = {"hostname": name, "pid": 1, "queues": ["default"], "labels": ["kiqbridge"]}
    raw.sadd("processes", f"{name}:1:aa")
    raw.hset(f"{name}:1:aa", mapping={"info": json.dumps(process), "busy": 0, "beat": 1})


@pytest.fixture
def operator(shards):
    for name, raw in shards.raw.items():
        fill(raw, name)
    made = open_operator(client=shards.client(), by="ann@example.com")
    yield made
    made.client.close()


@pytest.fixture
def browser(operator):
    return Browser(create_app(operator=operator, role="admin", environment="test"))


@pytest.fixture
def one_away(shards):
    """The same, while the shard `mail` is away."""
    with embedded_server() as server:
        url = server.url
    places = {name: each["url"] for name, each in shards.setting.items()} | {"mail": url}
    for name in ("fast", "rest"):
        fill(shards.raw[name], name)
    client = sharded(places).client()
    yield Browser(create_app(operator=open_operator(client=client), role="admin"))
    client.close()


@pytest.mark.parametrize("path", SCREENS)
@pytest.mark.parametrize("shard", ["", "fast"])
def test_each_screen_is_shown_of_all_shards_and_of_one(browser, path, shard):
    page = browser.request("GET", f"{path}?shard={shard}" if shard else path)

    assert page.status_code == 200
    assert 'aria-label="Shards"' in page.text
    assert f"shard={shard or 'rest'}" in page.text


def test_the_first_screen_has_the_sum_and_a_line_for_each_shard(browser):
    page = browser.request("GET", "/").text

    assert '<span class="value">3</span> <span class="label">retries</span>' in page
    assert page.count('<th scope="row" data-label="Shard">') == 3


def test_lists_name_the_shard_and_keep_the_choice_in_links_and_forms(browser):
    page = browser.request("GET", "/retries").text
    assert [
        name for name in ("mail", "fast", "rest") if f'<span class="shard">{name}</span>' in page
    ] == [
        "mail",
        "fast",
        "rest",
    ]

    page = browser.request("GET", "/retries?shard=fast").text
    assert "r-fast" in page
    assert "r-mail" not in page
    assert 'href="/queues?shard=fast"' in page
    assert '<input type="hidden" name="shard" value="fast">' in page
    assert 'action="/retries?shard=fast' in page


def test_an_action_goes_to_the_shard_of_the_entry(browser, operator, shards):
    entry = RetrySet(operator).find_job("r-rest")
    job = Queue("default", operator).find_job("q-fast")

    browser.send("/retries", one=f"retry {entry_token(entry)}")
    browser.send("/queues/default", one=f"kill {queued_token(job)}")

    assert {name: raw.zcard("retry") for name, raw in shards.raw.items()} == {
        "mail": 1,
        "fast": 1,
        "rest": 0,
    }
    assert {name: raw.zcard("dead") for name, raw in shards.raw.items()} == {
        "mail": 0,
        "fast": 1,
        "rest": 0,
    }


def test_a_shard_that_a_form_or_an_address_makes_up_is_nobodys(browser, operator, shards):
    token = entry_token(RetrySet(operator).find_job("r-rest"))

    browser.send("/retries", one=f"delete {token.replace('rest~', 'evil~')}", confirmed="1")
    assert shards.raw["rest"].zcard("retry") == 1
    browser.send("/retries?shard=fast", one=f"delete {token}", confirmed="1")
    assert shards.raw["rest"].zcard("retry") == 1

    page = browser.request("GET", "/retries?shard=evil")
    assert page.status_code == 404
    assert "There is no shard" in page.text


def test_a_job_is_found_by_its_id_and_its_page_names_the_shard(browser):
    page = browser.request("GET", "/jobs/r-rest").text

    assert 'Shard <span class="shard">rest</span>' in page


def test_a_shard_that_is_away_is_named_and_the_others_are_shown(one_away):
    assert "Shard mail is away" in one_away.request("GET", "/").text
    for path in ("/queues", "/busy", "/retries", "/processes"):
        page = one_away.request("GET", path)
        assert page.status_code == 200
        assert "Shard mail is away." in page.text
    assert 'tr class="away"' in one_away.request("GET", "/").text
    assert one_away.request("GET", "/retries?shard=mail").status_code == 503
    assert one_away.request("GET", "/retries?shard=rest").status_code == 200


def test_the_health_of_the_page_is_that_of_any_shard_and_of_one_if_asked(one_away):
    assert one_away.request("GET", "/healthz").json() == {
        "status": "ok",
        "shards": {"up": 2, "away": 1},
    }
    assert one_away.request("GET", "/healthz?shard=rest").status_code == 200
    assert one_away.request("GET", "/healthz?shard=mail").status_code == 503
    assert one_away.request("GET", "/healthz?shard=evil").status_code == 404
