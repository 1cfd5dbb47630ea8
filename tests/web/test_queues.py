"""The list of queues."""

import json
import time

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


def test_without_a_queue_the_page_says_what_that_means(browser):
    assert "There are no queues. No job was ever pushed" in browser.open("/queues").text


def test_queues_are_listed_the_longest_first_with_size_and_latency(browser, redis):
    push(redis, "mail", "a", "b", age_s=125)
    push(redis, "default", "c", "d", "e")

    page = browser.open("/queues")

    assert "5 waiting" in page.text
    assert page.text.index("default") < page.text.index("mail 2 2 min 5 s")
    assert "/queues/mail" in page.links


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
    assert "nobody serves it" in text
