"""The page of a job."""

import base64
import json
import time
import zlib

import pytest
from support.pages import Browser
from support.waiting import wait_until
from support.web_jobs import failed, job, push

from kiqbridge.api import DeadSet, RetrySet
from kiqbridge.store import operating
from kiqbridge.web import create_app
from kiqbridge.web.pages import job as job_page
from kiqbridge.web.pages.acting import token_of
from kiqbridge.web.security import Security


def packed(*lines):
    return base64.b64encode(zlib.compress(json.dumps(lines).encode())).decode()


def test_a_job_that_is_nowhere_says_where_was_looked(browser):
    page = browser.open("/jobs/4711", status=404)

    assert "4711 is nowhere in this Redis. All queues, the retries" in page.text


def test_a_dead_job_shows_its_life_arguments_error_and_backtrace(browser, redis):
    text = failed("j1", error_backtrace=packed("app.py:1", "lib.py:2"), bid="B1", locale="fr")
    redis.zadd("dead", {text: time.time() - 10})

    page = browser.open("/jobs/j1")

    assert "The job is dead." in page.text
    for before, after in (
        ("Created", "Enqueued"),
        ("Enqueued", "Failed"),
        ("Failed", "Failed: OSError"),
        ("Failed: OSError", "Died"),
    ):
        assert page.text.index(before) < page.text.index(after)
    assert '"j1", { "password": "hunter2" }' in page.text
    assert "OSError OSError of j1" in page.text
    assert "app.py:1 lib.py:2" in page.text
    assert 'locale "fr"' in page.text
    assert "Retries as many as usual" in page.text
    assert "It belongs to a batch of Sidekiq Pro" in page.text


def test_tags_stand_once_and_those_that_are_no_list_as_they_are(browser, redis):
    push(redis, "default", job("j1", tags=["nightly", "nightly"]), job("j2", tags="weekly"))

    assert browser.open("/jobs/j1").text.partition("Payload")[0].count("nightly") == 1
    assert 'tags "weekly"' in browser.open("/jobs/j2").text


def test_a_job_of_a_schedule_links_to_it(browser, redis):
    push(redis, "default", job("j1", tick={"schedule": "shop/Nightly", "at": 1_700_000_000}))

    page = browser.open("/jobs/j1")

    assert "The job waits in the queue default." in page.text
    assert "Occurrence of the schedule shop/Nightly 2023-11-14 22:13:20 UTC" in page.text
    assert "/schedules/shop/Nightly" in page.links


def test_a_running_job_is_found(browser, redis):
    payload = job("r1").decode()
    redis.sadd("processes", "web1:1:abc")
    redis.hset("web1:1:abc", "info", json.dumps({"hostname": "web1", "pid": 1}))
    work = {"queue": "default", "run_at": time.time(), "payload": payload}
    redis.hset("web1:1:abc:work", "t1", json.dumps(work))

    page = browser.open("/jobs/r1")
    assert "The job runs in web1:1:abc t1." in page.text
    fields = {name: page.fields[name] for name in ("identity", "jid")}
    again = browser.send("/processes/dump-threads", form_at="/jobs/r1", **fields)
    assert "web1:1 writes where each of its threads is to its log" in again.text
    assert "The job runs in" in again.text
    assert redis.lrange("web1:1:abc-signals", 0, -1) == [b"TTIN"]

    stack = {"run_at": work["run_at"], "at": time.time(), "stack": "File x.py\n  in <render>"}
    redis.hset("kb:stacks:web1:1:abc", "t1", json.dumps(stack))

    wait_until(lambda: "File x.py\n  in &lt;render&gt;" in browser.open("/jobs/r1").html)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_nothing_can_be_done_to_a_running_job_from_its_page(operator, redis, role):
    redis.sadd("processes", "web1:1:abc")
    redis.hset("web1:1:abc", "info", json.dumps({"hostname": "web1", "pid": 1}))
    work = {"queue": "default", "run_at": time.time(), "payload": job("r1").decode()}
    redis.hset("web1:1:abc:work", "t1", json.dumps(work))
    stack = {"run_at": work["run_at"], "at": time.time(), "stack": "File x.py\n  in <render>"}
    redis.hset("kb:stacks:web1:1:abc", "t1", json.dumps(stack))
    browser = Browser(create_app(operator=operator, role=role))

    page = browser.open("/jobs/r1")
    assert "File x.py\n  in &lt;render&gt;" in page.html
    assert ("Where is its thread?" in page.text) is (role == "operator")
    assert browser.request("GET", "/jobs/r1?raw=1").status_code == 200
    if role == "viewer":
        return
    for action in ("retry", "kill", "delete", "reschedule", "move", "requeue"):
        given = {"action": action, "confirmed": "1", "to": "low", "in_s": "3600", "args": "[]"}
        assert "Nothing was done" in browser.send("/jobs/r1", 404, **given).text


def test_a_job_in_two_places_shows_both(browser, redis):
    redis.zadd("retry", {failed("j1"): time.time()})
    push(redis, "default", job("j1"))

    page = browser.open("/jobs/j1")

    assert "The job waits for its next try." in page.text
    assert "The job waits in the queue default." in page.text


@pytest.mark.parametrize(("action", "left"), [("retry", "queue"), ("kill", "dead"), ("delete", "")])
def test_a_button_acts_on_the_job(browser, redis, action, left):
    redis.zadd("retry", {failed("j1"): time.time() + 60})

    fields = browser.open("/jobs/j1").fields | {"action": action}
    if action == "delete":
        question = browser.send("/jobs/j1", **fields)
        assert "Delete 1 job? The job j1 waits for its next try." in question.text
        assert redis.zcard("retry") == 1
        fields = question.fields
    page = browser.send("/jobs/j1", **fields)

    assert "Job j1 was " in page.text
    assert redis.zcard("retry") == 0
    assert redis.llen("queue:default") == (left == "queue")
    assert redis.zcard("dead") == (left == "dead")


@pytest.mark.parametrize(
    ("fields", "at"),
    [({"in_s": "3600"}, None), ({"at": "2035-05-06T07:08"}, 2_062_048_080.0)],
)
def test_a_job_is_rescheduled(browser, redis, fields, at):
    redis.zadd("retry", {failed("j1"): time.time() + 60})

    browser.send("/jobs/j1", action="reschedule", **fields)

    [(_, score)] = redis.zrange("retry", 0, -1, withscores=True)
    assert score == pytest.approx(at or time.time() + 3600, abs=30)


def test_a_job_is_edited_and_pushed_with_its_jid(browser, redis):
    redis.zadd("dead", {failed("j1"): time.time()})
    fields = browser.open("/jobs/j1").fields | {"action": "requeue"}

    page = browser.send("/jobs/j1", **fields, args='["né", 2]', queue="mail", job_class="Mail")

    assert "Job j1 was pushed as edited." in page.text
    [text] = redis.lrange("queue:mail", 0, -1)
    pushed = json.loads(text)
    assert (pushed["jid"], pushed["args"], pushed["class"]) == ("j1", ["né", 2], "Mail")
    assert redis.zcard("dead") == 0


@pytest.mark.parametrize("args", ["", "{", "{}", "1"])
def test_arguments_that_are_no_list_are_refused_and_nothing_is_done(browser, redis, args):
    redis.zadd("dead", {failed("j1"): time.time()})

    page = browser.send("/jobs/j1", status=400, action="requeue", args=args)

    assert "nothing was done" in page.text
    assert redis.zcard("dead") == 1


@pytest.mark.parametrize(
    ("fields", "notice", "key"),
    [
        ({"action": "move", "to": "mail"}, "was moved to the queue mail", "queue:mail"),
        ({"action": "kill"}, "was moved to the dead set", "dead"),
        ({"action": "delete"}, "Delete 1 job?", "queue:default"),
        ({"action": "delete", "confirmed": "1"}, "Job j1 was deleted.", ""),
    ],
)
def test_a_queued_job_is_moved_killed_or_deleted(browser, redis, fields, notice, key):
    push(redis, "default", job("j1"))

    assert notice in browser.send("/jobs/j1", **fields).text

    places = ("queue:default", "queue:mail", "dead")
    assert [each for each in places if redis.exists(each)] == ([key] if key else [])


def test_a_job_that_moved_on_meanwhile_is_left_alone(browser, operator, redis):
    redis.zadd("retry", {failed("j1"): 60.0})
    fields = browser.open("/jobs/j1").fields
    [entry] = RetrySet(operator)
    redis.delete("retry")

    answer = browser.request("POST", "/jobs/j1", data={**fields, "action": "retry"})
    again = browser.request("POST", "/jobs/j1", data={**fields, "action": "retry"})

    assert "Job j1 had moved on before: nothing was done." in answer.text
    assert again.status_code == 404
    assert "Nothing was done." in again.text
    assert token_of(entry) == fields["key"]
    assert redis.llen("queue:default") == 0


def test_who_may_not_see_arguments_sees_none_anywhere(operator, redis):
    args = ["ann", "positional-1", {"n": "nested-1"}]
    redis.zadd("dead", {failed("j1", args=args): 1.0, b"broken positional-1": 2.0})
    redis.sadd("queues", "default")
    redis.lpush("queue:default", failed("j2", args=args))
    paths = ["/jobs/j1", "/jobs/j1?raw=1", "/dead", "/queues/default"]

    def shown(role, to):
        app = create_app(operator=operator, role=role, security=Security(shows_args_to=to))
        pages = [Browser(app).request("GET", path) for path in paths]
        assert {page.status_code for page in pages} == {200}
        found = ["positional-1" in page.text or "nested-1" in page.text for page in pages]
        filtered = Browser(app).request("GET", "/dead?q=arg:p").status_code
        return found, filtered

    assert shown("viewer", "operator") == ([False] * 4, 403)
    assert shown("operator", "admin") == ([False] * 4, 403)
    assert shown("admin", None) == ([False] * 4, 403)
    assert shown("operator", "operator") == ([True] * 4, 200)
    assert shown("viewer", "viewer")[0] == [True] * 4


def test_a_long_argument_is_cut_with_its_size_and_a_link_to_the_whole(browser, operator, redis):
    redis.zadd("dead", {failed("j1", args=["x" * 500_000]): 1.0})
    [entry] = DeadSet(operator)

    page = browser.open("/jobs/j1")

    assert "500,008 characters in all" in page.text
    assert "has 500," in page.text
    link = next(link for link in page.links if "raw=1" in link)
    assert browser.request("GET", link).content == entry.text


def test_a_job_of_which_only_a_record_is_left_has_a_page(browser, redis):
    at = int(time.time()) // 60 * 60
    entry = {"at": at, "jids": ["gone"], "by": "worker:a", "enqueued_at": at}
    end = {"at": at, "jid": "gone", "outcome": "discarded", "ended_at": at + 3, "error": "OSError"}
    redis.zadd("kb:ticks:Nightly", {json.dumps(entry): at})
    redis.zadd("kb:ends:Nightly", {json.dumps(end): at})
    redis.zadd("kb:ledgers", {"Nightly": at + 99})

    for number in range(60):  # later ones, so that a search does not reach it
        later = {**entry, "jids": ["x"], "at": at + 60 * number + 60}
        redis.zadd("kb:ticks:Nightly", {json.dumps(later): later["at"]})

    page = browser.open(f"/jobs/gone?schedule=Nightly&at={at}")

    browser.open("/jobs/gone", status=404)
    assert "It has ended: discarded. OSError" in page.text
    assert page.text.index("Occurrence of the schedule Nightly") < page.text.index(
        "Enqueued by worker:a"
    )


def test_why_a_job_waits_stands_on_its_page(browser, redis):
    push(redis, "low", job("j1"), job("j2"))

    assert "It waits: queue low: no process serves it." in browser.open("/jobs/j2").text


def test_a_job_that_is_known_by_the_guard_of_its_event_alone_has_a_page(browser, redis):
    until = time.time() + 86_400
    guard = "event:4:Mail:1:0:m-1"
    redis.hset("kb:guards", guard, f"{until} gone")
    redis.zadd("kb:guards:until", {guard: until})

    page = browser.open("/jobs/gone")

    assert "Enqueued for event m-1" in page.text
    assert "How it has ended is not on record." in page.text


def test_a_look_through_many_jobs_is_bounded_says_how_far_it_is_and_goes_on_by_a_link(
    browser, redis, trips, monkeypatch
):
    monkeypatch.setattr(operating, "SEEK", 10)
    monkeypatch.setattr(job_page, "MOST_LOOKS", 2)
    redis.zadd("dead", {failed(f"d{number}"): number for number in range(25)})
    push(redis, "a", *(job(f"a{number}") for number in range(15)))
    push(redis, "b", job("sought"), job("b0"))
    looked, page, path = [], None, "/jobs/sought"
    while path:
        page = browser.open(path)
        looked += [page.text.partition("sought in ")[2].partition(" jobs")[0]]
        path = next((each for each in page.links if "cursor=" in each), "")

    assert looked == ["20 of 42", "40 of 42", ""]
    assert "waits in the queue b" in page.text
    browser.app.state.site.cache.clear()
    push(redis, "c", job("c0"))
    answer = browser.send("/jobs/other", 404, "/metrics/Mail", action="delete")
    assert "20 of 43 jobs were looked at. Nothing was done." in answer.text
    redis.delete("queue:b", "queue:a")
    assert "sought in" not in browser.open("/jobs/sought?cursor=5+queue:b", 404).text
