"""The list of queues."""

import json
import re
import time

import pytest

from kiqbridge.api import Queue
from kiqbridge.store.pauses import pause


def push(redis, queue, *jids, age_s=0.0):
    redis.sadd("queues", queue)
    for jid in jids:
        item = {
            "class": "Mail",
            "args": [],
            "jid": jid,
            "queue": queue,
            "enqueued_at": time.time() - age_s,
        }
        redis.lpush(f"queue:{queue}", json.dumps(item))


def test_queues_are_listed_the_longest_first_with_size_and_latency(browser, redis):
    push(redis, "mail", "a", "b", age_s=125)
    push(redis, "default", "c", "d", "e")

    page = browser.open("/queues")

    assert "5 waiting" in page.text
    assert page.text.index("default") < page.text.index("mail 2 2 min 5 s")
    assert "/queues/mail" in page.links


def test_queues_are_paged(browser, redis):
    for number in range(205):
        push(redis, f"q{number:03}", "a")

    first, last = browser.open("/queues"), browser.open("/queues?page=3")

    assert "205, 205 waiting" in first.text and "Page 1 of 3" in first.text
    assert ("/queues/q099" in first.links, "/queues/q100" in first.links) == (True, False)
    assert [link for link in last.links if "/queues/q" in link] == [
        f"/queues/q{number}" for number in range(200, 205)
    ]
    assert "past the end" in browser.open("/queues?page=4").text


def test_of_very_many_facts_the_first_are_shown_and_the_others_counted(browser, redis):
    for number in range(205):
        push(redis, f"q{number:03}", "a")
    redis.sadd("processes", "p")
    info = json.dumps({"hostname": "web1", "pid": 1, "queues": ["x"]})
    redis.hset("p", mapping={"info": info, "quiet": "false", "busy": 0})

    now = browser.open("/").text
    assert now.count("No process serves the queue") == 53
    [[folded, rest]] = re.findall(r"(\d+) more(?: .*)And (\d+) more facts like these", now)
    assert int(folded) - int(rest) == 50 and int(rest) >= 205 - 53


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/queues", "mail 1 in 5 min"),
        ("/queues/mail", "1 waiting, the oldest is enqueued in 5 min"),
        ("/", "1 job waits in queues, the oldest is enqueued in 5 min"),
    ],
)
def test_a_job_enqueued_in_the_future_is_shown_as_such(browser, redis, path, shown):
    push(redis, "mail", "a", age_s=-330)

    assert shown in browser.open(path).text


def test_a_paused_queue_says_why(browser, operator, redis):
    pause(operator.pool, operator.keys, "queue", "mail", reason="provider <down>", by="bob")

    assert "paused provider <down>" in browser.open("/queues").text
    assert Queue("mail", operator).size == 0


def test_a_queue_is_paused_and_resumed_from_the_list(browser, operator, redis):
    push(redis, "mail", "a")
    before = browser.open("/queues")
    assert before.fields["action"] == "pause"

    page = browser.request(
        "POST", "/queues/mail?back=queues", data={"csrf": before.fields["csrf"], "action": "pause"}
    )
    assert page.request.url.path == "/queues"
    assert Queue("mail", operator).paused

    assert browser.open("/queues").fields["action"] == "resume"


def test_a_queue_says_who_serves_it(browser, redis):
    push(redis, "mail", "a")
    push(redis, "lost", "b")
    for number, (queues, quiet) in enumerate(
        [(["mail"], "false"), (["mail", "x"], "false"), (["lost"], "true")]
    ):
        redis.sadd("processes", f"p{number}")
        info = json.dumps({"hostname": "web1", "pid": number, "queues": queues})
        redis.hset(f"p{number}", mapping={"info": info, "quiet": quiet, "busy": 0})

    text = browser.open("/queues").text

    assert "served by 2 processes" in text
    assert "no worker serves it" in text
