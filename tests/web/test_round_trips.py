"""How often each page asks Redis: within a bound, however much there is."""

import json
import time

import pytest
from starlette.routing import Route
from support import running_system
from support.web_jobs import failed, job, push

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.web.app import routes

MOST = 64
JOBS = 5_000
"""Of each queue and set, in all 25,000, besides those of a batch."""
BID = "f" * 24
GIVEN = {
    "/queues/{name:path}": ["/queues/default", "/queues/low?q=class:Nothing"],
    "/scheduled": ["/scheduled", "/scheduled?q=class:Nothing"],
    "/retries": ["/retries", "/retries?q=error:nothing"],
    "/dead": ["/dead", "/dead?q=class:Mail"],
    "/search": ["/search?q=class:Nothing", "/search?q=nothing"],
    "/jobs/{jid:path}": ["/jobs/none", "/jobs/default1", "/jobs/dead9", f"/jobs/member1?bid={BID}"],
    "/schedules/{name:path}": ["/schedules/sync-customers"],
    "/metrics": [f"/metrics?span={span}" for span in ("1h", "8h", "24h", "72h")],
    "/metrics/{job_class:path}": ["/metrics/Mail?span=8h", "/metrics/Mail?span=72h"],
    "/batches/{bid}": [f"/batches/{BID}", f"/batches/{BID}?state=failed"],
    "/limiters/{kind}/{name:path}": ["/limiters/concurrent/limit-1"],
    "/locks": ["/locks", "/locks?class=Mail"],
    "/done": ["/done", "/done?q=outcome:dead"],
    "/live": [],  # a stream of pages
}

MISSING = {"/jobs/none"}
"""All is looked through for these before it is said that they are not there."""


@pytest.fixture
def filled(redis, redis_url):
    """Some thousand of all that there is."""
    system = running_system.fill(redis_url)
    now, pipe = time.time(), redis.pipeline(transaction=False)
    for queue in ("default", "low"):
        push(redis, queue, *(job(f"{queue}{n}", queue=queue) for n in range(JOBS)))
    for key in ("schedule", "retry", "dead"):
        pipe.zadd(key, {failed(f"{key}{n}"): now + n for n in range(JOBS)})
    counts = {"total": JOBS, "pending": JOBS, "failed": 0}
    for number, bid in enumerate([BID, *(f"{n:024x}" for n in range(500))]):
        fields = {"created_at": now - 900, "sealed": 1, **counts}
        pipe.hset(f"kb:flow:batch:{bid}", mapping=fields)
        pipe.zadd("kb:flow:batches", {bid: now + 180 * 86_400 - number})
    pipe.hset(f"kb:flow:batch:{BID}:jobs", mapping={f"member{n}": "p" for n in range(JOBS)})
    for n in range(500):
        pipe.zadd("kb:limiters", {f"concurrent limit-{n}": now + 9_000})
        pipe.hset("kb:limiters:terms", f"concurrent limit-{n}", "1.0 0.0")
        us = int(now * 1e6)
        pipe.hset(f"kb:limit:concurrent:limit-{n}", f"t default{n} Mail", f"{us - 10**9} {2 * us} ")
        pipe.zadd(f"kb:waits:concurrent:limit-{n}", {f"low{n}": now + 900})
        pipe.hset("kb:locks", f"Mail:{n:064x}", f"{int(now) + 900} gone{n}")
        pipe.zadd("kb:locks:look", {f"Mail:{n:064x}": now + n})
        pipe.zadd("kb:audit", {f"{n}": now - n})
        pipe.hset("kb:audit:entries", f"{n}", json.dumps({"at": now - n, "action": "delete"}))
    pipe.execute()
    yield system
    redis.config_resetstat()  # else a test of slow commands finds these


@pytest.mark.slow
def test_no_page_takes_more_than_64_round_trips(filled, browser, monkeypatch):
    exchange, trips = RedisConnection.exchange, []
    counted = lambda *args, **named: trips.append(1) or exchange(*args, **named)  # noqa: E731
    monkeypatch.setattr(RedisConnection, "exchange", counted)
    pages = [each.path for each in routes() if isinstance(each, Route) and "GET" in each.methods]
    taken = {}
    for path in (path for each in pages for path in GIVEN.get(each, [each])):
        browser.app.state.site.cache.clear()
        trips.clear()
        status = browser.request("GET", path).status_code
        assert status == 200 or (status == 404 and path in MISSING), path
        taken[path] = len(trips)

    assert len(taken) > 25
    assert {path: count for path, count in taken.items() if count > MOST} == {}
