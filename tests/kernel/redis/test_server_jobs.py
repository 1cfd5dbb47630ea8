"""`kiqbridge.testing.real_jobs`: the jobs of a test on a real server, performed on its thread by real claims."""

import contextlib
import time

import pytest
from support.waiting import wait_until

from kiqbridge import Client, ConfigError, configure, job
from kiqbridge import server as server_
from kiqbridge.api import DeadSet, RetrySet
from kiqbridge.client.default_client import default_client
from kiqbridge.flow import Batch, BatchSet, call, chain, current_batch, group
from kiqbridge.testing import EndlessJobs, drain, fake, inline, real_jobs

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


def test_a_part_is_performed_by_queue_and_number(jobs, note, seen):
    other = job(name="Other")(lambda: seen.append("other"))
    for number in range(3):
        note.perform_async(number)
    other.perform_async()

    assert drain(queue="low", limit=2) == 2
    assert seen == [0, 1]
    with pytest.raises(ConfigError, match="claimed by their queue"):
        jobs.drain(job=note)
    assert jobs.drain() == 2


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


def test_jobs_that_enqueue_each_other_without_end_are_stopped(jobs, monkeypatch):
    monkeypatch.setattr("kiqbridge.testing.server_jobs.MOST_JOBS", 5)

    @job
    def again():
        again.perform_async()

    again.perform_async()
    with pytest.raises(EndlessJobs, match="5 jobs were performed"):
        jobs.drain()


@pytest.mark.parametrize("mode", ["fake", "server"])
def test_the_end_of_a_job_under_flow_control_is_applied(mode, redis_url, note):
    with fake() if mode == "fake" else real_jobs(redis_url) as jobs:
        client = default_client()
        client.push({"class": note, "args": ["one"], "flow": {"lock": "none"}})
        applied = []
        client.middleware.add(lambda *args: applied.append(args) or args[-1]())

        assert jobs.drain() == 1

        assert client.pool.call("EXISTS", client.keys.flow_ends) == 0
        assert jobs.performed[0].outcome == "done"


@pytest.mark.parametrize("mode", ["fake", "inline", "server"])
class TestBatches:
    """Their callbacks are performed like other jobs, wherever jobs are performed for a test."""

    @pytest.fixture
    def jobs(self, mode, redis_url):
        ways = {"fake": fake, "inline": inline, "server": lambda: real_jobs(redis_url)}
        with ways[mode]() as jobs:
            yield jobs

    @pytest.fixture
    def closed(self, seen):
        @job(name="Closed")
        def closed(text):
            batch = current_batch()
            seen.append(text if batch is None else f"{text} {batch.event}")

        return closed

    @pytest.mark.parametrize("count", [2, 0])
    def test_what_a_job_makes_calls_back(self, jobs, note, seen, closed, count):
        @job
        def outer():
            with Batch(on_success=call(closed, "outer")):
                note.perform_async("part")
                with Batch(on_success=call(closed, "a"), on_complete=call(closed, "b")):
                    for number in range(count):
                        note.perform_async(number)

        outer.perform_async()
        jobs.drain()

        ends = ["a success", "b complete", "outer success", "part"]
        assert sorted(map(str, seen)) == [*map(str, range(count)), *ends]
        assert seen[-1] == "outer success"
        assert {each.pending for each in BatchSet()} == {0}

    def test_a_group_hands_on_to_what_follows_it(self, jobs, note, seen, closed):
        chain(group(call(note, 1), call(note, 2)), call(closed, "all")).perform_async()
        jobs.drain()

        assert sorted(seen[:2]) == [1, 2]
        assert seen[2:] == ["all"]

    def test_a_due_job_that_middleware_stops_has_ended(self, jobs, note, seen, closed, monkeypatch):
        with Batch(on_complete=call(closed, "ended")):
            note.perform_in(0.001, "stopped")
        chain = server_.client_middleware.copy()
        chain.add(lambda declared, *more: None if declared == "Note" else more[-1]())
        monkeypatch.setattr(server_, "client_middleware", chain)
        wait_until(lambda: jobs.drain() >= 0 and seen, what="the callback")

        assert seen == ["ended complete"]

    def test_what_is_left_of_a_cancelled_one_is_not_performed(self, jobs, seen, closed):
        @job(name="Cancelling")
        def cancelling():
            seen.append("began")
            current_batch().cancel()

        with Batch(on_complete=call(closed, "ended")) as batch:
            cancelling.perform_async()
            cancelling.perform_async()
        jobs.drain()

        assert seen == ["began", "ended complete"]
        assert len(batch.failed_jids()) == 1
        assert batch.pending_jids() == []


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
