"""Results of jobs that ask for it: kept by a worker's outbox, awaited by whoever enqueued them."""

import asyncio
import json
import threading

import pytest
from support.interrupting import LONG_S, again_and_again, is_ended
from support.jobs import own_declarations
from support.runners import RunnerStand, fail, payload

from kiqbridge import PayloadError, configure, job
from kiqbridge.api import history_of
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.features.results.kept import parse_result
from kiqbridge.results import (
    JobFailed,
    Result,
    ResultOmitted,
    ResultTimeout,
    aawait_result,
    await_result,
    fetch_result,
)

JID = "b4a577edbccf1d805744efa9"


@pytest.fixture
def work(client, redis):
    """Runs a job as a worker does, up to what its outbox writes."""
    stand = RunnerStand()
    outbox = Outbox(client, client.pool.connection())

    def work(function, flow=None, **attributes):
        stand.declare(function)
        flow = {"result_ttl_s": 60} if flow is None else flow
        settlement = stand.run(payload(jid=JID, flow=flow, **attributes) | {"args": []})
        if settlement is not None:
            for effect in settlement.effects:
                redis.zadd(effect.keys[0], {effect.args[1]: effect.args[0]})
        outbox.look()
        stand.registry._definitions.clear()

    yield work
    stand.close()


@pytest.mark.parametrize(
    "value",
    [{"total": 2**64, "names": ["é", None]}, None, json.loads("[" * 98 + "1" + "]" * 98)],
    ids=["object", "null", "as deep as it may be"],
)
def test_what_a_job_returned_is_kept_for_its_time(work, client, redis, value):
    work(lambda: value)

    assert await_result(JID, client=client) == value
    found = fetch_result(JID, client=client)
    assert (found.outcome, found.value, found.error) == ("done", value, "")
    assert 0 < redis.ttl(f"kb:result:{JID}") <= 60


def test_a_job_that_dies_is_an_error_with_class_and_message(work, client):
    work(fail, retry=0)

    with pytest.raises(JobFailed, match=f"^job {JID} is dead, ValueError: no luck$") as failed:
        await_result(JID, client=client)
    error = failed.value
    assert (error.jid, error.outcome, error.error_class, error.message) == (
        JID,
        "dead",
        "ValueError",
        "no luck",
    )


def test_a_failure_that_is_tried_again_is_no_end(work, client):
    work(fail)

    assert fetch_result(JID, client=client) is None
    with pytest.raises(ResultTimeout, match=f"no result of job {JID} after 0 s: it has not ended"):
        await_result(JID, timeout_s=0, client=client)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, "x" * 300_000, {1: 2, "1": 3}, json.loads("[" * 99 + "]" * 99)]
)
def test_what_cannot_be_kept_is_said(work, client, value):
    work(lambda: value)

    with pytest.raises(ResultOmitted, match="is done, but what it returned is no JSON, or longer"):
        await_result(JID, client=client)


def test_without_asking_nothing_is_kept(work, client, redis):
    work(lambda: 7, flow={"other": 1})
    work(lambda: 7, flow={"result_ttl_s": "long"})

    assert redis.keys("kb:result:*") == []


def test_a_later_success_replaces_an_earlier_death(work, client):
    work(fail, retry=0)
    work(lambda: "at last")

    assert await_result(JID, client=client) == "at last"


def test_a_jid_that_is_none_keeps_no_result(work, redis, client):
    outbox = Outbox(client, client.pool.connection())
    for jid in ("", "x" * 300):
        end = {"flow": {"result_ttl_s": 5}, "jid": jid, "class": "A", "outcome": "done", "at": 1}
        redis.zadd("kb:flow:ends", {json.dumps(end): 0})

    outbox.look()

    assert redis.keys("kb:*") == []


def test_waiting_ends_when_the_result_is_there(redis, client):
    timer = threading.Timer(
        0.05, redis.set, (f"kb:result:{JID}", '{"outcome":"done","at":1,"value":3}')
    )
    timer.start()

    assert await_result(JID, timeout_s=60, client=client) == 3
    timer.join()


def test_a_coroutine_waits_without_blocking_its_loop(redis, client):
    async def both():
        waiting = asyncio.create_task(aawait_result(JID, timeout_s=60, client=client))
        await asyncio.sleep(0)
        assert not waiting.done()
        redis.set(f"kb:result:{JID}", '{"outcome":"done","at":1,"value":4}')
        with pytest.raises(ResultTimeout):
            await aawait_result("c" * 24, timeout_s=0, client=client)
        return await waiting

    assert asyncio.run(both()) == 4


def test_the_default_client_is_that_of_the_declared_jobs(redis, redis_url):
    with own_declarations():
        configure(redis_url)

        @job(result_ttl=60)
        def total(): ...

        jid = total.perform_async()
        other = total.set(result_ttl=5).perform_async()
        flows = [json.loads(text)["flow"] for text in redis.lrange("queue:default", 0, -1)]
        redis.set(f"kb:result:{jid}", '{"outcome":"done","at":1,"value":"seven"}')

        assert flows == [{"result_ttl_s": 5}, {"result_ttl_s": 60}]
        assert await_result(jid) == "seven"
        assert fetch_result(other) is None


@pytest.mark.parametrize("jid", [None, "", 7])
def test_what_is_no_jid_is_refused(jid, client):
    with pytest.raises(
        PayloadError, match="is no job's id; a push that middleware stopped has none"
    ):
        fetch_result(jid, client=client)


def test_a_foreign_value_is_no_result(redis, client):
    redis.set(f"kb:result:{JID}", "junk")

    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        fetch_result(JID, client=client)
    assert isinstance(parse_result(b'{"outcome":"done","at":1}'), Result)


@pytest.mark.parametrize("outcome", ["dead", "discarded", "skipped", "expired", "cancelled"])
def test_how_a_job_has_ended_is_its_state_while_that_is_kept(redis, operator, outcome):
    redis.set(f"kb:result:{JID}", json.dumps({"outcome": outcome, "at": 1}))

    history = history_of(JID, operator)

    assert (history.status, history.job, history.end.outcome) == (outcome, None, outcome)


def test_a_job_that_was_revived_since_its_death_is_where_it_is(redis, client):
    handle = client.push({"class": "Nop", "args": []})
    redis.set(f"kb:result:{handle}", '{"outcome":"dead","at":1}')

    assert handle.status() == "queued"
    assert handle.job().delete()
    assert (handle.status(), handle.job()) == ("dead", None)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: await_result(JID, timeout_s=LONG_S, client=client),
        lambda client: again_and_again(lambda: fetch_result(JID, client=client)),
    ],
    ids=["waits", "asks again and again"],
)
def test_a_job_that_waits_for_a_result_can_be_interrupted(client, ask):
    is_ended(lambda: ask(client))
