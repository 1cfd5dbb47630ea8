"""What the queues were in each minute."""

import json

from support.web_jobs import job

from kiqbridge.api import open_operator
from kiqbridge.features.queue_history import FEATURE
from kiqbridge.features.queue_history.history import fetch, record


def test_the_leader_writes_sizes_and_waits_and_forgets_what_is_older_than_an_hour(redis, redis_url):
    operator = open_operator(redis_url)
    key = operator.keys.queue_minutes
    now = redis.time()[0]
    redis.hset(key, mapping={str(now // 60 - 61): "{}", str(now // 60 - 3): '{"mail": [7, 1.5]}'})
    redis.sadd("queues", "mail", "empty")
    redis.lpush("queue:mail", job("a", enqueued_at=now - 90), job("b", enqueued_at=now))

    record(operator.keys, operator.pool.connection())
    found = fetch(operator)
    operator.client.close()

    first, last = found.values()
    assert first == {"mail": (7, 1.5)}
    size, waited_s = last["mail"]
    assert (size, last["empty"]) == (2, (0, 0.0))
    assert 90 <= waited_s < 120
    assert 0 < redis.ttl(key) <= 7200
    assert list(json.loads(redis.hget(key, str(max(found) // 60)))) == ["mail", "empty"]
    assert [chore.where for chore in FEATURE.chores] == [("leader",)]


def test_how_fast_a_queue_grows_and_when_it_is_empty_follow_from_its_minutes(browser, redis):
    for minute, (up, down) in enumerate([(10, 60), (20, 50), (40, 40)]):
        sizes = {"up": [up, 1.0], "down": [down, 1.0], "new": [1, 1.0]}
        if not minute:
            del sizes["new"]
        redis.hset("kb:queues:minutes", str(29_000_000 + minute), json.dumps(sizes))
    for name in ("up", "down", "new"):
        redis.sadd("queues", name)
        redis.lpush(f"queue:{name}", *(job(f"{name}{number}") for number in range(40)))

    page = browser.open("/queues")

    assert "+15 a minute" in page.text
    assert "\u221210 a minute, empty in 4 min" in page.text
    assert page.text.count("a minute") == 2
    assert page.html.count('class="sparkline"') == 3
