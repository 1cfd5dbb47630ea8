"""Retries, Scheduled, Dead: what stands there, and what each button does in Redis."""

import asyncio
import json
import time

import httpx
import pytest
from support.pages import ORIGIN
from support.web_jobs import dead, failed, job

from kiqbridge.api import DeadSet, RetrySet
from kiqbridge.web.pages.acting import token_of

SETS = [("/retries", "retry"), ("/scheduled", "schedule"), ("/dead", "dead")]


def jids(redis, key):
    return [json.loads(text)["jid"] for text in redis.zrange(key, 0, -1)]


def token(operator, kind, jid):
    return token_of(kind(operator).find_job(jid))


@pytest.mark.parametrize(("path", "key"), SETS)
def test_a_row_shows_class_arguments_queue_and_time(browser, redis, path, key):
    redis.zadd(key, {failed("j1", tags=["vip"]): time.time() + 3700})

    page = browser.open(path)

    assert "1 job" in page.text
    assert 'Mail vip "j1", {"password": "hunter2"}' in page.text
    assert "in 1 h 1 min" in page.text
    assert ("OSError OSError of j1 2" in page.text) is (key != "schedule")
    assert any(link.startswith(f"/jobs/j1?in={key}&key=") for link in page.links)


def test_groups_come_first_and_each_is_a_link_to_its_jobs(browser, redis):
    dead(redis, 3)
    redis.zadd("dead", {failed("x1", "Report[1]", "KeyError"): 5.0})

    page = browser.open("/dead")

    assert "By class and error all of them" in page.text
    assert page.text.index("Mail OSError OSError of d0 3") < page.text.index("Report[1] KeyError")
    link = next(each for each in page.links if "KeyError" in each and "class%3A" in each)
    rows = browser.open(link)
    assert "x1" in rows.text
    assert "d0" not in rows.text
    assert "1 of the 4 jobs looked at matches." in rows.text


def test_more_groups_have_an_address_of_their_own(browser, redis):
    dead(redis, 210)

    page = browser.open("/dead")

    assert "of the 200 newest of 210 · look at more" in page.text
    assert "210 of 210 looked at" in browser.open("/dead/groups").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("class:Mail", {"a", "b"}),
        ("class:Bill*", {"c"}),
        ("error_class:*Error+queue:mail", {"b"}),
        ("error:refused", {"b"}),
        ("tag:vip", {"a"}),
        ("arg:4711", {"c"}),
        ("blue", {"c"}),
        ("older:40", {"a", "b"}),
        ("newer:40s", {"c"}),
        ("class:Nobody", set()),
    ],
)
def test_a_filter_is_a_link(browser, redis, query, found):
    redis.zadd("dead", {failed("a", tags=["vip"]): 1.0})
    redis.zadd("dead", {failed("b", queue="mail", error_message="Refused by peer"): 2.0})
    redis.zadd("dead", {failed("c", "Billing", args=[4711, "blue"], retried_at=time.time()): 3.0})

    page = browser.open(f"/dead?q={query}")

    shown = {link.split("?")[0].rpartition("/")[2] for link in page.links if "/jobs/" in link}
    assert shown == found
    assert ("No job matches the filter." in page.text) is (not found)


def test_an_age_that_is_no_number_is_a_page_that_says_so(browser):
    assert "'soon' is no duration" in browser.open("/dead?q=older:soon", status=400).text


def test_pages_are_links_and_one_past_the_end_says_so(browser, redis):
    dead(redis, 60)

    second = browser.open("/dead?page=2")
    assert "Page 2 of 3" in second.text
    assert "d25" in second.text
    assert "d24" not in second.text
    assert {"/dead?page=1", "/dead?page=3"} <= set(second.links)
    assert "This page is past the end." in browser.open("/dead?page=9").text
    assert "d59" in browser.open("/dead?order=oldest").text
    assert "d49" in browser.open("/dead?per=50").text


@pytest.mark.parametrize("query", ["page=x", "page=-1", f"page={10**30}", "per=7", "start=-5"])
def test_numbers_that_are_none_become_the_first_ones(browser, redis, query):
    dead(redis, 30)

    assert "Page 1 of 2" in browser.open(f"/dead?{query}").text


def test_a_filter_goes_on_where_it_stopped_looking(browser, redis):
    dead(redis, 5_010)
    redis.zadd("dead", {failed("last", "Rare"): 1.0})

    page = browser.open("/dead?q=class:Rare")

    assert "0 of the 5,000 jobs looked at match; there are 5,011." in page.text
    further = next(link for link in page.links if "start=5000" in link)
    assert "last" in browser.open(further).text


def test_when_jobs_are_due_is_counted_by_spans(browser, redis):
    now = time.time()
    for jid, after_s in (("a", -5), ("b", 30), ("c", 45), ("d", 7200), ("e", 10**9)):
        redis.zadd("retry", {failed(jid): now + after_s})

    page = browser.open("/retries")

    for part in ("1 due", "2 within 1 min", "0 within 5 min", "1 within 4 h", "1 later"):
        assert part in page.text
    assert "from now on" not in browser.open("/retries?q=class:Mail").text
    assert "from now on" not in browser.open("/dead").text


def test_one_job_is_retried_by_its_button(browser, operator, redis):
    dead(redis, 2)

    page = browser.send("/dead", one=f"retry {token(operator, DeadSet, 'd1')}")

    assert "1 job pushed to their queues." in page.text
    assert jids(redis, "dead") == ["d0"]
    assert [json.loads(text)["jid"] for text in redis.lrange("queue:default", 0, -1)] == ["d1"]


def test_chosen_jobs_are_killed_and_what_moved_on_is_counted(browser, operator, redis):
    for jid in "abc":
        redis.zadd("retry", {failed(jid): time.time() + 60})
    keys = [token(operator, RetrySet, jid) for jid in "ab"]
    redis.zrem("retry", RetrySet(operator).find_job("b").text)

    page = browser.send("/retries", action="kill", key=keys)

    assert "1 job moved to the dead set. 1 job moved on before." in page.text
    assert (jids(redis, "retry"), jids(redis, "dead")) == (["c"], ["a"])


@pytest.mark.parametrize("is_all", [True, False])
def test_what_cannot_be_pushed_is_counted_apart_with_its_reason(browser, operator, redis, is_all):
    dead(redis, 2)
    redis.zadd("dead", {b"no json": 5.0})
    keys = [token_of(job) for job in DeadSet(operator)]

    chosen = {"all": "1", "confirmed": "1"} if is_all else {"key": keys}
    page = browser.send("/dead", action="retry", **chosen)

    assert (
        "2 jobs pushed to their queues. 1 job stays where it is: job (without jid): " in page.text
    )
    assert "its text cannot be read" in page.text
    assert "moved on before" not in page.text
    assert redis.zrange("dead", 0, -1) == [b"no json"]


def test_chosen_jobs_are_deleted_after_a_question(browser, operator, redis):
    dead(redis, 3)
    keys = [token(operator, DeadSet, jid) for jid in ("d0", "d1")]

    question = browser.send("/dead", action="delete", key=keys)
    assert "Delete 2 jobs?" in question.text
    assert "This cannot be undone." in question.text
    assert len(jids(redis, "dead")) == 3

    page = browser.send("/dead", action="delete", key=keys, confirmed="1")
    assert "2 jobs deleted." in page.text
    assert jids(redis, "dead") == ["d2"]


def test_a_job_is_rescheduled(browser, operator, redis):
    redis.zadd("retry", {failed("a"): time.time() + 60})

    browser.send("/retries", action="reschedule", key=token(operator, RetrySet, "a"), in_s="21600")

    [(_, at)] = redis.zrange("retry", 0, -1, withscores=True)
    assert at == pytest.approx(time.time() + 21600, abs=30)


@pytest.mark.parametrize("delay", ["", "soon", "-1", "1e9", "99999999999"])
def test_a_time_that_is_none_is_refused(browser, redis, delay):
    redis.zadd("retry", {failed("a"): 60.0})

    page = browser.send("/retries", status=400, action="reschedule", key="60-x", in_s=delay)

    assert "Choose when" in page.text


def test_nothing_chosen_is_nothing_done(browser, redis):
    dead(redis, 2)

    assert "No job was chosen" in browser.send("/dead", action="retry").text
    assert len(jids(redis, "dead")) == 2


def test_all_that_match_are_acted_on_after_a_question_with_count_and_filter(browser, redis):
    dead(redis, 3)
    redis.zadd("dead", {failed("x", "Other"): 1.0})

    question = browser.open("/dead?q=class:Mail&confirm=retry")
    assert "Retry now: 3 jobs under Dead?" in question.text
    assert "All jobs under Dead that match class:Mail: 3 jobs." in question.text

    page = browser.send("/dead?q=class:Mail&confirm=retry", **question.fields)
    assert "3 jobs pushed to their queues." in page.text
    assert jids(redis, "dead") == ["x"]
    assert redis.llen("queue:default") == 3


@pytest.mark.parametrize(("path", "key"), SETS)
def test_jobs_are_moved_to_another_queue_and_stay_in_their_set(browser, redis, path, key):
    redis.zadd(key, {failed("j1"): 9e9, failed("j2"): 9e9})
    one, _ = [each for each in browser.open(path).tags if each[1].get("name") == "key"]

    assert (
        "1 job moved to low."
        in browser.send(path, action="move", to="low", key=one[1]["value"]).text
    )
    asked = browser.send(path, action="move", to="low", all="1")
    assert "Move to low: 2 jobs under" in asked.text
    done = browser.send(path, form_at=f"{path}?confirm=move&to=low", **asked.fields)
    assert "1 job moved to low." in done.text
    assert [json.loads(each)["queue"] for each in redis.zrange(key, 0, -1)] == ["low", "low"]


@pytest.mark.parametrize("action", ["retry", "delete"])
def test_nothing_is_done_to_all_before_the_question(browser, redis, action):
    dead(redis, 3)

    page = browser.send("/dead?q=class:Mail", action=action, all="1")

    assert "All jobs under Dead that match class:Mail: 3 jobs." in page.text
    assert redis.zcard("dead") == 3


@pytest.mark.parametrize("fields", [{"action": "explode"}, {"one": "kill x"}, {}])
def test_an_action_that_the_set_does_not_have_is_refused(browser, redis, fields):
    dead(redis, 1)

    assert "There is no action" in browser.send("/dead", status=400, **fields).text


def test_a_token_that_is_none_of_ours_hits_nothing(browser, redis):
    dead(redis, 1)

    page = browser.send("/dead", action="retry", key=["x", "-", "nan-00", "inf-00", "1-00", "é"])

    assert "0 jobs pushed" in page.text
    assert len(jids(redis, "dead")) == 1


def test_a_viewer_sees_no_secrets_no_buttons_and_may_not_guess(viewer, redis):
    dead(redis, 1, error_message="login with password=hunter2 failed")

    page = viewer.open("/dead")

    assert "hunter2" not in page.html + viewer.open("/").html
    assert "button" not in [tag for tag, given in page.tags if given.get("name") == "action"]
    for q in ("arg:h", "text:h", "error:h", "h"):
        assert "hidden from the role viewer" in viewer.open(f"/dead?q={q}", status=403).text
    assert viewer.open("/dead?confirm=retry", status=403)


HOSTILE = [
    b"no json \xff<script>alert(1)</script>",
    b'{"class": "<script>alert(1)</script>", "args": ["<img src=x onerror=alert(1)>"], "jid": "\\"><script>"}',
    b'{"class": "\\u202eevil\\u200b", "args": ["\\ud800", "\\u0000"], "jid": "\\ud800", "queue": "\\ud800"}',
    b"[1, 2]",
    b"{}",
    b'{"class": {"a": 1}, "args": {"b": 2}, "tags": 5, "jid": 7, "error_class": [1], "error_message": {}}',
    b'{"class": "Deep", "args": ' + b"[" * 200 + b"]" * 200 + b"}",
    json.dumps({"class": "Long", "jid": "long", "args": ["x" * 900_000]}).encode(),
    json.dumps({"class": "Longer", "jid": "longer", "args": ["x" * 1_200_000]}).encode(),
    b'{"class": "When", "args": [], "jid": "w", "failed_at": 1e400, "created_at": -1e300, "retry_count": 1e9}',
]


@pytest.mark.parametrize(("path", "key"), SETS)
def test_hostile_texts_are_shown_as_text(browser, redis, path, key):
    for place, text in enumerate(HOSTILE):
        redis.zadd(key, {text: 1000.0 + place})
    redis.zadd(key, {job("inf"): float("inf"), job("small"): -1e300})

    page = browser.open(path)

    assert "<script>alert(1)</script>" in page.text
    assert [given.get("src") for tag, given in page.tags if tag in {"script", "img"}] == [
        next(given["src"] for tag, given in page.tags if tag == "script")
    ]
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    assert len(page.html) < 200_000
    for sign in "\u202e\u200b\0":
        assert sign not in page.html


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_job_has_a_page_and_can_be_deleted(browser, operator, redis, text):
    redis.zadd("dead", {text: 1000.0})
    link = next(link for link in browser.open("/dead").links if link.startswith("/jobs/"))

    page = browser.open(link)
    assert len(page.html) < 150_000
    raw = browser.request("GET", f"{link}&raw=1")
    assert raw.headers["content-type"].startswith("text/plain")

    [entry] = DeadSet(operator)
    browser.send("/dead", action="delete", key=token_of(entry), confirmed="1")
    assert redis.zcard("dead") == 0


def commands(redis):
    stats = redis.info("commandstats")
    return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")


def test_a_page_costs_at_most_ten_commands(browser, redis):
    dead(redis, 1_000)
    before = commands(redis)

    browser.open("/dead")

    assert 0 < commands(redis) - before <= 10


def test_many_viewers_of_a_page_cost_as_much_as_one(browser, redis):
    dead(redis, 30)

    async def look_all():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(browser.app), base_url=ORIGIN
        ) as client:
            return await asyncio.gather(*(client.get("/dead") for _ in range(100)))

    before, begun = commands(redis), time.monotonic()
    answers = asyncio.run(look_all())
    seconds = time.monotonic() - begun

    assert {answer.status_code for answer in answers} == {200}
    # Four a second, and what a new connection says of itself.
    assert commands(redis) - before <= 10 * (1 + int(seconds))
