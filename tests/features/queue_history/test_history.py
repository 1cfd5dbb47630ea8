"""What the queues were in each minute, and how fast they fill and empty."""

import json
import time

import pytest
from support.waiting import wait_until
from support.web_jobs import job
from support.workers import started_workers

from kiqbridge.api import fetch_queue_rates, open_operator
from kiqbridge.api.queue_rates import QueueMinute, rates_of
from kiqbridge.features.queue_history import FEATURE
from kiqbridge.features.queue_history.history import fetch, record

JOBS = """
import time
from kiqbridge import job

@job(queue="mail")
def quick(): ...

@job(queue="mail")
def stuck():
    time.sleep(60)
"""


def test_the_leader_writes_sizes_and_waits_and_forgets_what_is_older_than_an_hour(redis, redis_url):
    operator = open_operator(redis_url)
    key = operator.keys.queue_minutes
    now = redis.time()[0]
    redis.hset(key, mapping={str(now // 60 - 61): "{}", str(now // 60 - 3): '{"mail": [7, 1.5]}'})
    redis.hset(operator.keys.queue_taken, mapping={"mail": 12, "gone": 3})
    redis.sadd("queues", "mail", "empty")
    redis.lpush("queue:mail", job("a", enqueued_at=now - 90), job("b", enqueued_at=now))

    record(operator.keys, operator.pool.connection())
    found = fetch(operator)
    operator.client.close()

    first, last = found.values()
    assert first == {"mail": (7, 1.5, None)}
    size, waited_s, taken = last["mail"]
    assert (size, taken, last["empty"]) == (2, 12, (0, 0.0, None))
    assert 90 <= waited_s < 120
    assert 0 < redis.ttl(key) <= 7200
    assert list(json.loads(redis.hget(key, str(max(found) // 60)))) == ["mail", "empty"]
    assert redis.hkeys(operator.keys.queue_taken) == [b"mail"]
    assert [chore.where for chore in FEATURE.chores] == [("leader",)]


@pytest.fixture
def minutes(redis, redis_url, operator, tmp_path):
    """Two of them; a worker took jobs meanwhile, and gave some back when it was stopped."""
    key, client = operator.keys.queue_minutes, operator.client
    (tmp_path / "jobs.py").write_text(JOBS)
    client.push_bulk({"class": "quick", "queue": "mail", "args": [[]] * 200})
    record(operator.keys, operator.pool.connection())
    [(minute, text)] = redis.hgetall(key).items()
    redis.hset(key, int(minute) - 2, text)
    redis.hdel(key, minute)

    flags = ("-r", str(tmp_path / "jobs.py"), "-c", "1", "-q", "mail", "-t", "1")
    with started_workers(*flags, env={}, redis_url=redis_url) as start:
        worker = start()
        client.push_bulk({"class": "quick", "queue": "mail", "args": [[]] * 300})
        client.push({"class": "stuck", "queue": "mail", "args": []})
        client.push_bulk({"class": "quick", "queue": "mail", "args": [[]] * 9})
        wait_until(lambda: int(redis.get("stat:processed") or 0) >= 500, 60)
        worker.stop()
    record(operator.keys, operator.pool.connection())


@pytest.mark.usefixtures("minutes")
def test_what_workers_took_and_what_came_are_shown_and_what_went_back_is_no_part_of_it(
    redis, operator, run, browser
):
    waiting = redis.llen("queue:mail")
    assert 1 <= waiting <= 10
    taken = int(redis.hget("kb:queues:taken", "mail"))
    assert taken == 510 - waiting  # what was given back is not counted
    rates = fetch_queue_rates(operator)["mail"]
    assert 0 < redis.ttl("kb:queues:taken") <= 7200
    passed = taken / rates.out
    assert passed in (2, 3)
    assert round(rates.into * passed) == 310
    left = f"{rates.into:,.0f} in, {rates.out:,.0f} out), empty in"
    assert left in browser.open("/queues").text
    assert left in browser.open("/queues/mail").text
    assert left in run("queue", "list")[1]
    assert left in run("stats")[1]
    [shown] = json.loads(run("stats", "--json")[1])["queues"]
    assert shown["rates"]["out_a_minute"] == rates.out
    # Ruby's workers take of it, too, and are not counted.
    identity = "ruby:1:aaa"
    info = {"hostname": "ruby", "pid": 1, "queues": ["mail"], "version": "7.3.10", "labels": []}
    redis.sadd("processes", identity)
    redis.hset(identity, mapping={"info": json.dumps(info), "beat": time.time(), "quiet": "false"})
    assert fetch_queue_rates(operator)["mail"].into is None
    assert f"({rates.out:,.0f} out by Kiqbridge's workers)" in run("queue", "list")[1]


def test_how_fast_a_queue_grows_and_when_it_is_empty_follow_from_its_minutes(browser, redis):
    now = redis.time()[0] // 60
    for minute, (up, down) in enumerate([(10, 60), (20, 50), (40, 40)]):
        sizes = {"up": [up, 1.0], "down": [down, 1.0], "new": [1, 1.0]}
        if not minute:
            del sizes["new"]
        redis.hset("kb:queues:minutes", str(now - 2 + minute), json.dumps(sizes))
    for name in ("up", "down", "new"):
        redis.sadd("queues", name)
        redis.lpush(f"queue:{name}", *(job(f"{name}{number}") for number in range(40)))

    page = browser.open("/queues")

    assert "+15 a minute" in page.text
    assert "\u221210 a minute, empty in 4 min" in page.text
    assert page.text.count("a minute") == 2
    assert page.html.count('class="sparkline"') == 3


def test_what_cannot_be_right_is_left_out():
    def rates(before, now):
        return rates_of({0: {"mail": QueueMinute(*before)}, 120: {"mail": QueueMinute(*now)}})

    # An operator has deleted jobs; the counter was evicted; no worker of this version took any.
    assert rates((100, 1.0, 50), (10, 1.0, 60))["mail"] == (-45, 5, None)
    assert rates((10, 1.0, 50), (10, 1.0, 4))["mail"] == (0, None, None)
    assert rates((10, 1.0), (30, 1.0))["mail"] == (10, None, None)
    assert rates((10, 1.0), (10, 1.0, 6))["mail"] == (0, 3, 3)
