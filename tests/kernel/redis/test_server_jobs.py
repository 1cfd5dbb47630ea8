"""`kiqbridge.testing.real_jobs`: the jobs of a test on a real server, performed on its thread by real claims."""

import contextlib
import time

import pytest

from kiqbridge import Client, configure, job
from kiqbridge import server as server_
from kiqbridge.api import DeadSet, RetrySet
from kiqbridge.client.default_client import default_client
from kiqbridge.testing import fake, real_jobs

pytestmark = [pytest.mark.any_server, pytest.mark.usefixtures("own_jobs")]


@pytest.fixture
def jobs(redis_url):
    with real_jobs(redis_url) as jobs:
        yield jobs


@pytest.fixture
def note(seen):
    @job(name="Note", queue="low")
    def note(text):
        seen.append(text)

    return note


def test_jobs_are_claimed_performed_and_acknowledged(jobs, redis, note, seen):
    @job
    def outer():
        note.perform_async("inner")

    outer.perform_async()
    note.perform_async("first")

    assert jobs.drain() == 3
    assert sorted(seen) == ["first", "inner"]
    assert [str(each.outcome) for each in jobs.performed] == ["done"] * 3
    # Nothing is left of the claims, and nobody else has anything to give back.
    assert redis.keys("kb:inflight*") == []
    assert redis.keys("queue:*") == []


def test_the_default_client_is_that_of_the_server_only_meanwhile(redis_url, note):
    former = configure("redis://nowhere.invalid:1/0")
    with real_jobs(redis_url) as jobs:
        assert default_client() is jobs.client
        assert jobs.url == redis_url
    assert default_client() is former


def test_a_job_that_fails_is_in_the_retry_set_and_raised(jobs, note):
    @job(retry=0)
    def deadly():
        raise ValueError("at once")

    @job
    def failing():
        raise ValueError("no")

    jid = failing.perform_async()
    with pytest.raises(ValueError, match="no") as caught:
        jobs.drain()
    assert jid in caught.value.__notes__[0]
    assert RetrySet().find_job(jid).error_message == "no"

    dead = deadly.perform_async()
    assert jobs.drain(raise_errors=False) == 1
    assert DeadSet().find_job(dead) is not None


def test_what_is_due_is_moved_first(jobs, redis, note, seen):
    Client(jobs.url).push({"class": note, "args": ["due"], "at": time.time() + 3600})
    [(member, _)] = redis.zscan_iter("schedule")
    assert jobs.drain() == 0
    redis.zadd("schedule", {member: time.time() - 1})

    assert jobs.drain() == 1
    assert seen == ["due"]


def test_a_job_that_client_middleware_of_the_worker_stops_is_not_moved(
    jobs, redis, note, monkeypatch
):
    note.perform_in(3600, "stopped")
    [(member, _)] = redis.zscan_iter("schedule")
    redis.zadd("schedule", {member: time.time() - 1})
    chain = server_.client_middleware.copy()
    chain.add(lambda _declared, _payload, _queue, _call_next: None)
    monkeypatch.setattr(server_, "client_middleware", chain)

    assert jobs.drain() == 0
    assert redis.zcard("schedule") == 0


def test_resources_are_open_until_the_end(redis_url, note, seen, monkeypatch):
    monkeypatch.setattr(server_, "resources", [])

    @server_.lifespan
    @contextlib.contextmanager
    def database():
        seen.append("open")
        yield None
        seen.append("closed")

    with real_jobs(redis_url) as jobs:
        note.perform_async("one")
        jobs.drain()
        note.perform_async("two")
        jobs.drain()

    assert seen == ["open", "one", "two", "closed"]


@pytest.mark.parametrize("mode", ["fake", "server"])
def test_the_end_of_a_job_under_flow_control_is_applied(mode, redis_url, note):
    with fake() if mode == "fake" else real_jobs(redis_url) as jobs:
        client = default_client()
        client.push({"class": note, "args": ["one"], "flow": {"of": "another"}})
        applied = []
        client.middleware.add(lambda *args: applied.append(args) or args[-1]())

        assert jobs.drain() == 1

        assert client.pool.call("EXISTS", client.keys.flow_ends) == 0
        assert jobs.performed[0].outcome == "done"


def test_records_have_what_a_job_returned_or_raised(jobs):
    @job
    def half(number):
        return {"half": number / 2}

    half.perform_async(3)
    half.perform_async("a")
    jobs.drain(raise_errors=False)

    done, failed = jobs.performed
    assert (done.result, done.error) == ({"half": 1.5}, None)
    assert failed.result is None
    assert isinstance(failed.error, TypeError)
