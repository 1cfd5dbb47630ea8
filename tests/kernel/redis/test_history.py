"""The life of a job: what becomes of it in each place, and the one reason for which it waits."""

import json
import time

import pytest

from kiqbridge import PayloadError
from kiqbridge.api import Queue, RetrySet, find_job, history_of
from kiqbridge.api.processes import identity_of
from kiqbridge.wire.tick_mark import JobEnd

JID = "b4a577edbccf1d805744efa9"


def text(jid=JID, **more):
    return json.dumps(
        {"class": "Mail", "args": [], "jid": jid, "queue": "low", "enqueued_at": 1e9, **more}
    )


def push(redis, *texts):
    redis.sadd("queues", "low")
    if texts:
        redis.lpush("queue:low", *texts)


def serve(redis, identity="web:1:a", quiet="false"):
    redis.sadd("processes", identity)
    info = json.dumps({"queues": ["low"], "identity": identity})
    redis.hset(identity, mapping={"info": info, "beat": time.time(), "quiet": quiet})
    redis.expire(identity, 60)


def wait_of(operator, jid=JID):
    wait = history_of(jid, operator).wait
    return wait.kind, wait.text


class TestWhyItWaits:
    def test_its_place_in_its_queue(self, redis, operator):
        serve(redis)
        push(redis, *(text(f"j{number}") for number in range(3)), text(), text("last"))

        wait = history_of(JID, operator).wait

        assert (wait.kind, wait.place, wait.of) == ("place", 4, 5)
        assert wait.text == "place 4 of 5 in queue low"
        assert wait.about == "queue:low"

    def test_its_queue_is_paused(self, redis, operator):
        serve(redis)
        push(redis, text())
        Queue("low", operator).pause_it("deploy", for_s=600)

        wait = history_of(JID, operator).wait

        assert (wait.kind, wait.text) == (
            "paused queue",
            f"queue low is paused by {operator.by}: deploy",
        )
        assert 0 < wait.until - time.time() <= 601

    def test_nobody_serves_its_queue(self, redis, operator):
        push(redis, text())
        assert wait_of(operator) == ("unserved", "queue low: no process serves it")

        serve(redis, quiet="true")
        said = "queue low: every process that serves it is quiet or silent"
        assert wait_of(operator) == ("unserved", said)

    @pytest.mark.parametrize("place", ["queue", "schedule"])
    def test_its_class_is_paused(self, redis, operator, place):
        serve(redis)
        if place == "queue":
            push(redis, text())
        else:
            redis.zadd("schedule", {text(): time.time() + 60})
        operator.client.pause_class("Mail", by="ann")

        assert wait_of(operator) == ("paused class", "class Mail is paused by ann")

    @pytest.mark.parametrize(
        ("key", "at", "said"),
        [
            ("retry", 2e9, "its next try is due"),
            ("schedule", 2e9, "it is due"),
            ("schedule", 1.0, "it is due, and no worker has pushed it yet"),
        ],
    )
    def test_it_is_due_later(self, redis, operator, key, at, said):
        redis.zadd(key, {text(): at})

        wait = history_of(JID, operator).wait

        assert (wait.kind, wait.text, wait.until) == ("due", said, at)

    def test_it_is_a_suspect(self, redis, operator):
        push(redis)
        redis.lpush("kb:suspects:low", text())

        said = "it ran when a worker died, or hung when one stopped, and waits in queue low to run alone"
        assert wait_of(operator) == ("suspect", said)

    def test_a_worker_has_taken_it_and_not_begun(self, redis, operator, process):
        push(redis, text())
        identity = identity_of(process.claimer().claim(["low"], 1).lease.incarnation)
        serve(redis, identity)

        history = history_of(JID, operator)

        assert (history.status, history.wait.kind) == ("running", "claimed")
        assert history.wait.text == (
            f"worker {identity} took it from queue low, and has not shown it as running yet"
        )

    def test_one_that_is_dead_or_runs_waits_for_nothing(self, redis, operator):
        redis.zadd("dead", {text(): 5})

        history = history_of(JID, operator)

        assert (history.status, history.wait) == ("dead", None)


def test_what_the_job_itself_says_of_its_failures_are_attempts(redis, operator):
    failed = {"failed_at": 100.0, "retried_at": 200.0, "retry_count": 1}
    redis.zadd("retry", {text(error_class="OSError", error_message="no\nroute", **failed): 2e9})

    history = history_of(JID, operator)

    assert [(each.at, each.label) for each in history.attempts] == [
        (100.0, "Failed"),
        (200.0, "Failed: OSError: no"),
    ]
    assert [each.label for each in history.events] == ["Enqueued", "Next try"]


def test_what_operators_did_to_it_is_among_its_events(redis, operator):
    redis.zadd("retry", {text(): 2e9})
    [found] = find_job(JID, operator)
    found.job.retry()
    Queue("low", operator).find_job(JID).move("high")
    Queue("high", operator).find_job(JID).delete()

    history = history_of(JID, operator)

    by = f"by {operator.by} ({operator.via})"
    assert [each.label for each in history.events] == [
        f"Retry in retry {by}",
        f"Move in queue:low {by}",
        f"Delete in queue:high {by}",
    ]
    assert (history.status, history.end.reason) == ("deleted", f"{operator.by} deleted it")
    assert len(RetrySet(operator)) == 0


def test_a_job_of_a_schedule_is_known_while_its_ledger_is(redis, operator):
    at = int(time.time()) // 60 * 60
    entry = {"at": at, "jids": [JID, "other"], "by": "worker:a", "enqueued_at": at + 0.5}
    redis.zadd("kb:ticks:Nightly", {json.dumps(entry): at})
    redis.zadd("kb:ledgers", {"Nightly": at + 99})

    unfinished = history_of("other", operator)
    assert (unfinished.status, unfinished.is_known) == ("unknown", True)

    end = JobEnd(at=at, jid=JID, outcome="discarded", ended_at=at + 3.0, error="OSError")
    redis.zadd("kb:ends:Nightly", {end.to_text(): at})
    history = history_of(JID, operator)

    assert (history.status, history.end.error, history.end.source) == (
        "discarded",
        "OSError",
        "ledger",
    )
    assert [each.label for each in history.events] == [
        "Occurrence of the schedule Nightly",
        "Enqueued by worker:a",
        "Ended: discarded, OSError",
    ]


@pytest.mark.parametrize("jid", ["nothing", "\ud800", "*", "x" * 100_000, "a\0b\n"])
def test_of_what_is_no_jid_nothing_is_known(redis, operator, jid):
    push(redis, text(), b"no json", b"\xff")

    history = history_of(jid, operator)

    assert (history.status, history.is_known) == ("unknown", False)


@pytest.mark.parametrize("jid", ["", None, 7])
def test_no_text_is_refused(operator, jid):
    with pytest.raises(PayloadError, match="is no job's id"):
        history_of(jid, operator)


def test_a_key_of_another_type_hides_nothing_else(redis, operator):
    push(redis, text())
    redis.set("kb:paused", "no hash")

    history = history_of(JID, operator)

    assert (history.status, history.wait) == ("queued", None)
    assert "WRONGTYPE" in history.refused[0]


def test_a_text_that_nobody_can_read_hides_nothing_else(redis, operator):
    push(redis, text())
    redis.set(f"kb:result:{JID}", "junk")

    history = history_of(JID, operator)

    assert (history.status, history.wait.kind, len(history.refused)) == ("queued", "unserved", 1)
