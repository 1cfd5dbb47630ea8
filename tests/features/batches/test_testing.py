"""`kiqbridge.testing`: callbacks are performed like other jobs, wherever jobs are performed for a test."""

import pickle

import pytest
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge import server as server_
from kiqbridge.flow import Batch, BatchSet, call, chain, current_batch, group
from kiqbridge.testing import fake, inline, real_jobs

pytestmark = [pytest.mark.any_server, pytest.mark.usefixtures("own_jobs")]


@pytest.fixture
def seen():
    return []


@pytest.fixture
def note(seen):
    @job(name="Note", queue="low")
    def note(text):
        seen.append(text)

    return note


@pytest.fixture(params=["fake", "inline", "server"])
def jobs(request, redis_url):
    ways = {"fake": fake, "inline": inline, "server": lambda: real_jobs(redis_url)}
    with ways[request.param]() as jobs:
        yield jobs


@pytest.fixture
def closed(seen):
    @job(name="Closed")
    def closed(text):
        batch = current_batch()
        seen.append(f"{text} {batch.event}" if batch and batch.event else text)

    return closed


@pytest.mark.parametrize("count", [2, 0])
def test_what_a_job_makes_calls_back(jobs, note, seen, closed, count):
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


def test_a_group_hands_on_to_what_follows_it(jobs, note, seen, closed):
    chain(group(call(note, 1), call(note, 2)), call(closed, "all")).perform_async()
    jobs.drain()

    assert sorted(seen[:2]) == [1, 2]
    assert seen[2:] == ["all"]


def test_the_job_behind_a_group_gets_its_results(jobs, note, seen):
    @job(name="Square")
    def square(number: int) -> int:
        return number * number

    group(*(call(square, n) for n in (3, 1, 2)), then=note, pass_results=True).perform_async()
    jobs.drain()

    assert seen == [[9, 1, 4]]


def test_what_came_of_a_chain_a_group_and_a_batch_is_asked_by_its_handle(jobs):
    @job(name="Square", result_ttl=60)
    def square(number: int) -> int:
        return number * number

    lane = chain(call(square, 2), call(square, 5))
    alone = chain(call(square, 3), group(call(square, 1), lane)).perform_async()
    single = chain(call(square, 6)).perform_async()
    with Batch() as batch:
        within = group(call(square, 4), lane).perform_async()
        after = chain(call(square, 7), call(square, 8)).perform_async()
    jobs.drain()

    assert [each.wait(0) for each in (alone, within, after)] == ["done"] * 3
    assert (alone.result(), within.result(), after.result()) == ([1, 25], [16, 25], 64)
    assert single.result() == 36
    assert batch.wait(0).success
    results = batch.results()
    assert sorted(results) == batch.jids()
    assert sorted(each.value for each in results.values()) == [49, 64]
    assert pickle.loads(pickle.dumps(alone)) == str(alone)


def test_a_due_job_that_middleware_stops_has_ended(jobs, note, seen, closed, monkeypatch):
    with Batch(on_complete=call(closed, "ended")):
        note.perform_in(0.001, "stopped")
    chain = server_.client_middleware.copy()
    chain.add(lambda declared, *more: None if declared == "Note" else more[-1]())
    monkeypatch.setattr(server_, "client_middleware", chain)
    wait_until(lambda: jobs.drain() >= 0 and seen, what="the callback")

    assert seen == ["ended complete"]


def test_what_is_left_of_a_cancelled_one_is_not_performed(jobs, seen, closed):
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
