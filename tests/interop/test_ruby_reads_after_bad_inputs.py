"""After every odd job, member and text all pages of Ruby's Web UI and all of its readers still work."""

import json
from pathlib import Path

import pytest
import redis as redis_py
from support.bad_payloads import ODD, UNREADABLE, members, objects, text_of
from support.idle import is_idle
from support.ruby import run_ruby
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.errors import ProcessDied
from kiqbridge.features.suspects.runner import SHORT_BYTES, SuspectRunner
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.interop, pytest.mark.web_ui]

DIRECTION = "Python writes, Ruby's Web UI shows and acts"

TESTS = Path(__file__).parents[1]
CRAWL = (TESTS / "support" / "crawl.rb").read_text(encoding="utf-8")
JOBS = """
import asyncio
import os
from pathlib import Path

from kiqbridge import job


@job(name="Thread")
def thread(case, *wishes):
    if "fail" in wishes:
        raise ValueError("as it was told")


@job(name="Paused")
def paused(case, *wishes): ...


@job(name="Loop")
async def loop(case, *wishes):
    while not Path(os.environ["EVIDENCE"], "release").exists():
        await asyncio.sleep(0.05)
"""
ATTRIBUTES = "class_ args jid queue retry retry_count retry_for retry_queue created_at enqueued_at failed_at retried_at discarded_at error_message error_class error_backtrace backtrace at dead wrapped display_class tags log_level cattr locale profile unique_for bid encrypt unreadable".split()  # noqa: SIM905 - a list of them is thirty lines
FOREIGN = {
    "tags": "Ruby's pages list them, and only a list can be",
    "created_at": "Ruby's readers make a time of it, and only a finite number can be",
    "enqueued_at": "as created_at; a queue's latency is made of it",
    "error_backtrace": "Ruby's readers inflate it",
    "jid": "the page of a job is found by it, and only a text can be; lists of jobs show it",
    "failed_at": "Ruby's readers make a time of it",
}
"""What Ruby cannot show of a job that Ruby's own client could have pushed, while it lies untouched in a queue
or a set. No worker of ours has had it in its hands; once one has, it can be shown."""


def odd(also="", **values):
    """One job for each attribute and each odd value of it."""
    return [
        text_of(f"{key} {what}", also, **{**values, key: value})
        for key in ATTRIBUTES
        for what, value in ({"none": None} | ODD).items()
    ]


def of_class(name, texts):
    return [text.replace(b"CLASS", name.encode()) for text in texts]


@pytest.fixture(scope="module")
def worker(python_worker):
    with python_worker(
        JOBS, "-c", "4", "-q", "default", "-q", "paused", "--async-concurrency", "1000"
    ) as worker:
        yield worker


@pytest.fixture
def redis(server):
    with redis_py.Redis.from_url(server.url) as redis:
        yield redis
        redis.delete("retry", "schedule", "dead", "queues", *redis.keys("queue:*"))


@pytest.fixture
def enqueued(redis, worker):
    """Puts texts into a queue, and waits until our worker has dealt with each of them."""

    def enqueue(texts, queue="default"):
        redis.sadd("queues", queue)
        redis.rpush(f"queue:{queue}", *texts)
        wait_until(lambda: is_idle(redis, "default", "paused"), 60, lambda: worker.output[-3000:])

    return enqueue


def unread(server):
    """What Ruby could not read: place → members and errors."""
    return run_ruby(CRAWL, server.url, 120)


@pytest.mark.operation("after bad input")
def test_odd_jobs_that_ran_or_failed_can_be_shown(server, enqueued, redis):
    jobs = [case.text for case in objects() if not case.name.startswith("10 MB")]

    enqueued(of_class("Thread", jobs))

    assert redis.zcard("retry") > 100
    assert unread(server) == {}


@pytest.mark.operation("after bad input")
@pytest.mark.parametrize(("place", "values"), [("retry", {}), ("dead", {"retry": "0"})])
def test_each_odd_attribute_can_be_shown_in_a_job_that_failed(
    server, enqueued, redis, place, values
):
    enqueued(of_class("Thread", odd(',"fail"', **values)))

    assert redis.zcard(place) > 300
    assert unread(server) == {}


@pytest.mark.operation("after bad input")
def test_each_odd_attribute_can_be_shown_in_a_job_whose_class_is_paused(server, enqueued, redis):
    client = Client(server.url)
    client.pause_class("Paused")
    seen = text_of("seen").replace(b"CLASS", b"Paused")

    def is_paused():  # in effect within a second
        enqueued([seen], "paused")
        return redis.zcard("schedule")

    wait_until(is_paused, 20, what="the pause")
    enqueued(of_class("Paused", odd()), "paused")

    assert redis.zcard("schedule") > 300
    assert unread(server) == {}
    client.resume_class("Paused")
    client.close()


@pytest.mark.operation("after bad input")
def test_each_odd_attribute_can_be_shown_of_a_running_job(server, redis, worker, evidence):
    texts = [text for text in of_class("Loop", odd()) if b'"bid":' not in text]
    redis.rpush("queue:default", *texts)

    def running():
        [identity] = redis.smembers("processes")
        return redis.hlen(identity + b":work")

    wait_until(lambda: running() > 300 and not redis.exists("queue:default"), 60, "their running")

    try:
        assert unread(server) == {}
    finally:
        (evidence.folder / "release").touch()
    wait_until(lambda: is_idle(redis, "default", "paused"), 60, lambda: worker.output[-3000:])


@pytest.mark.operation("after bad input")
@pytest.mark.parametrize("source", ["retry", "schedule"])
def test_odd_members_of_a_set_can_be_shown_wherever_they_went(server, redis, worker, source):
    texts = of_class("Thread", [case.text for case in members()])
    redis.zadd(source, dict.fromkeys([*texts, *UNREADABLE.values()], 1.0))

    wait_until(
        lambda: not redis.zrangebyscore(source, "-inf", 2), 60, lambda: worker.output[-3000:]
    )
    wait_until(lambda: is_idle(redis, "default", "paused"), 60)

    assert redis.zcard("dead") > len(UNREADABLE)
    assert unread(server) == {}


@pytest.mark.operation("after bad input")
@pytest.mark.parametrize("length", [0, SHORT_BYTES + 1])
def test_what_killed_its_process_can_be_shown_though_it_is_buried_by_its_bytes(
    server, redis, length
):
    runner = SuspectRunner(
        keys=Keys(),
        capsule="default",
        policy=lambda: RetryPolicy(max_retries=25, profile="7"),
        server=Server(),
        registry=default_registry,
    )
    if length:  # of such a text only the kinds of its outermost values are known, not the values
        kinds = ("tags ", "created_at ", "enqueued_at ", "jid ", "error_backtrace ")
        cases = [text for text in odd() if any(b'["%b' % kind.encode() in text for kind in kinds)]
        cases = [text for text in cases if b"out of range" not in text]
    else:
        cases = odd()
    note = b'{"note":"%b","' % (b"x" * length)
    texts = [text.replace(b'{"', note, 1) for text in of_class("Thread", cases)]

    for text in texts:
        settlement = runner.condemned(text, "default", ProcessDied("was ended by SIGSEGV"))
        redis.zadd("dead", {settlement.text: settlement.score})

    assert unread(server) == {}


@pytest.mark.operation("after bad input")
def test_what_ruby_cannot_show_of_jobs_that_lie_untouched_is_known(server, redis):
    texts = of_class("Thread", odd())
    redis.sadd("queues", "parked")
    redis.rpush("queue:parked", *texts[::2])
    redis.zadd("schedule", dict.fromkeys(texts[1::2], 4e9))

    found = unread(server)

    blamed = {
        json.loads(member)["case"].split()[0] for rows in found.values() for member, _ in rows
    }
    assert blamed <= FOREIGN.keys()
    assert {"tags", "created_at", "enqueued_at"} <= blamed
