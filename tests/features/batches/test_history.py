"""The life of a job that belongs to a batch or a chain: what it belongs to, what follows, and what it waits for."""

import json

import pytest
from support.jobs import own_declarations

from kiqbridge import configure, job
from kiqbridge.api import history_of
from kiqbridge.flow import Batch, call, chain, group


@pytest.fixture
def step(redis_url):
    with own_declarations():
        configure(redis_url)

        @job(name="Step")
        def step() -> None: ...

        yield step


def test_a_step_waits_for_the_job_before_it(redis, operator, step):
    jid = chain(call(step), call(step), group(call(step), call(step))).perform_async()
    first = history_of(jid, operator)
    chain_id, (following, last) = first.parents[0].id, first.children

    second = history_of(following.id, operator)
    member = json.loads(redis.lindex("queue:default", 0))["flow"]["next"]["steps"][1]["group"][0]

    assert (first.parents[0].kind, first.parents[0].text) == (
        "chain",
        "Step → group of 2, 3 of 3 pending, 0 failed",
    )
    assert (following.kind, following.text) == ("job", "step 2, Step")
    assert (last.kind, last.text) == ("group", "step 3, 2 members")
    assert (second.status, second.wait.kind, second.wait.about) == ("unknown", "step", f"job:{jid}")
    assert second.wait.text == f"a step of chain {chain_id}, which is at job Step {jid}"
    assert (second.job_class, second.is_known) == ("Step", True)
    assert history_of(member[0]["job"]["jid"], operator).wait.about == f"job:{jid}"


def test_a_callback_waits_for_its_batch(redis, operator, step):
    with Batch(description="June", on_success=call(step)) as batch:
        jid = step.perform_async()
    launch = json.loads(redis.hget(f"kb:flow:batch:{batch.bid}", "on_success"))

    history = history_of(launch["steps"][0]["job"]["jid"], operator)

    said = f"pushed on success of batch {batch.bid}: June, 1 of 1 pending, 0 failed"
    assert (history.wait.kind, history.wait.text) == ("batch", said)
    [parent] = history_of(jid, operator).parents
    redis.hset(f"kb:flow:batch:{batch.bid}", "success_at", 5)
    pushed = history_of(launch["steps"][0]["job"]["jid"], operator, bid=batch.bid)
    assert (pushed.wait, pushed.parents[0].id) == (None, batch.bid)
    assert (parent.kind, parent.id, parent.text) == (
        "batch",
        batch.bid,
        "June, 1 of 1 pending, 0 failed",
    )


@pytest.mark.parametrize(("state", "status"), [("d", "done"), ("f", "gone"), ("p", "unknown")])
def test_a_member_is_known_while_its_batch_is_kept(redis, operator, step, state, status):
    with Batch() as batch:
        jid = step.perform_async()
    redis.delete("queue:default")
    redis.hset(f"kb:flow:batch:{batch.bid}:jobs", jid, state)

    history = history_of(jid, operator)

    assert (history.status, history.parents[0].id) == (status, batch.bid)
    assert (history.wait is not None) is (state == "p")


def test_a_batch_that_nobody_can_read_hides_nothing_else(redis, operator, step):
    with Batch() as batch:
        step.perform_async()
    redis.hset(f"kb:flow:batch:{batch.bid}", mapping={"on_success": "{OTHER", "total": "x"})
    redis.hset(f"kb:flow:batch:{batch.bid}:jobs", "JID", "p")

    for jid, is_known in (("JID", True), ("OTHER", False)):
        history = history_of(jid, operator)
        assert (history.status, history.is_known) == ("unknown", is_known)
