"""One queue: its jobs, and what each button does in Redis."""

import json

import pytest
from support.web_jobs import job, push

from kiqbridge.api import Queue, read_audit
from kiqbridge.web.pages.acting import find_jobs, token_of


def jids(redis, queue):
    return [json.loads(text)["jid"] for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


def tokens(operator, queue, *wanted):
    return [
        token_of(each) for each in Queue(queue, operator).page(1, 100).rows if each.jid in wanted
    ]


def test_jobs_stand_in_the_order_in_which_they_are_taken_or_the_reverse(browser, redis):
    push(redis, "mail", job("first", tags=["vip"]), job("second"))

    page = browser.open("/queues/mail")

    assert "2 waiting, the oldest for 1 min 40 s" in page.text
    assert page.text.index('Mail vip "first"') < page.text.index('"second"')
    other = browser.open("/queues/mail?order=newest")
    assert other.text.index('"second"') < other.text.index('"first"')


def test_that_no_process_serves_it_is_said(browser, redis):
    push(redis, "mail", job("j1"))

    assert "Its jobs wait: no process serves it." in browser.open("/queues/mail").text


@pytest.mark.parametrize("name", ["a b", "a/b", "ä?&#", "<b>x</b>", "50%", "\u202ex"])
def test_a_queue_of_any_name_has_a_page(browser, redis, name):
    push(redis, name, job("j1"))

    link = next(link for link in browser.open("/queues").links if link.startswith("/queues/"))
    page = browser.open(link)

    assert '"j1"' in page.text
    assert "<b>" not in page.html
    assert "Clear: 1 job in the queue" in browser.send(link, action="clear").text
    assert redis.llen(f"queue:{name}") == 1
    browser.send(link, action="clear", confirmed="1")
    assert redis.llen(f"queue:{name}") == 0


def test_a_queue_is_paused_with_a_reason_and_resumed(browser, operator, redis):
    push(redis, "mail", job("j1"))

    page = browser.send("/queues/mail", action="pause", reason="provider down", for_s="3600")
    assert "Paused. No worker takes its jobs: provider down; by ann@example.com" in page.text
    assert "mail is paused for 1 h." in page.text
    assert redis.sismember("paused", "mail")

    page = browser.send("/queues/mail", action="resume")
    assert "mail is served again." in page.text
    assert not redis.exists("paused")
    assert "was not paused" in browser.send("/queues/mail", action="resume").text


def test_one_job_and_chosen_ones_are_killed_moved_and_deleted(browser, operator, redis):
    push(redis, "mail", *(job(jid) for jid in "abcde"))

    [one] = tokens(operator, "mail", "a")
    assert "1 job moved to the dead set." in browser.send("/queues/mail", one=f"kill {one}").text
    browser.send("/queues/mail", action="move", to="other", key=tokens(operator, "mail", "b", "c"))
    chosen = tokens(operator, "mail", "d")
    assert "Delete 1 job?" in browser.send("/queues/mail", action="delete", key=chosen).text
    assert jids(redis, "mail") == ["d", "e"]
    browser.send("/queues/mail", action="delete", key=chosen, confirmed="1")

    assert (jids(redis, "mail"), jids(redis, "other")) == (["e"], ["b", "c"])
    assert redis.zcard("dead") == 1


def test_a_job_is_found_again_after_others_were_taken_and_pushed(operator, redis):
    push(redis, "mail", *(job(f"j{number}") for number in range(20)))
    wanted = tokens(operator, "mail", "j15")

    redis.rpop("queue:mail", 10)
    push(redis, "mail", job("new"))
    redis.rpush("queue:mail", job("given back"))

    assert [found.jid for found in find_jobs(Queue("mail", operator), wanted)] == ["j15"]


def test_all_that_match_are_moved_after_a_question(browser, redis):
    push(redis, "mail", job("a"), job("b", "Other"), job("c"))

    question = browser.open("/queues/mail?q=class:Mail&confirm=move&to=slow")
    assert "Move to slow: 2 jobs in the queue mail?" in question.text

    browser.send("/queues/mail?q=class:Mail&confirm=move&to=slow", **question.fields)
    assert (jids(redis, "mail"), jids(redis, "slow")) == (["b"], ["a", "c"])


def test_clearing_asks_with_the_count_and_is_for_administrators(browser, operator, redis):
    push(redis, "mail", job("a"), job("b"))

    question = browser.open("/queues/mail?confirm=clear")
    assert "Clear: 2 jobs in the queue mail?" in question.text
    page = browser.send("/queues/mail?confirm=clear", **question.fields)

    assert "mail is cleared: 2 jobs deleted." in page.text
    assert not redis.exists("queue:mail")
    assert read_audit(operator)[0].action == "clear"


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "explode"},
        {},
        {"action": "move", "all": "1"},
        {"action": "pause", "for_s": "9e9"},
    ],
)
def test_what_cannot_be_done_is_refused(browser, redis, fields):
    push(redis, "mail", job("a"))

    browser.send("/queues/mail", status=400, **fields)

    assert jids(redis, "mail") == ["a"]
