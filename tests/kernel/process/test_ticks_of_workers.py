"""Jobs of schedules in real workers: however they are performed, the ledger gets how they ended."""

import json
import time
from pathlib import Path

import pytest
from support.waiting import wait_until

from kiqbridge.clocks.ledger import read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "tasks.py"
FLAGS = ("-c", "2")


@pytest.fixture
def ledger(redis_url):
    """The newest entry of schedule `s`."""
    pool = RedisPool(redis_url)
    yield lambda: read_ledger(pool, Keys(), "s")[0]
    pool.close()


@pytest.fixture
def push(client):
    def push(job_class, *args, **attributes):
        job = {"class": job_class, "args": list(args), **attributes}
        outcome = client.push_tick("s", int(time.time()) // 60 * 60, [job], by="test")
        assert outcome.kind == "enqueued"
        return outcome.jobs[0].jid

    return push


def end_of(ledger):
    [end] = wait_until(lambda: ledger().ends, 20, lambda: f"an end; {ledger()}")
    assert abs(end.ended_at - time.time()) < 60
    return end


def nothing_left(redis):
    wait_until(lambda: not redis.keys("kb:inflight:*"), 10)
    assert not redis.exists("retry", "queue:low", "schedule")


@pytest.mark.parametrize(
    ("fetch", "job_class", "args"),
    [
        ("basic", "Bill", [7]),
        ("reliable", "Bill", [7]),
        ("reliable", "Asynchronous", [1]),
        ("reliable", "InChild", [1]),
        ("reliable", "StepsInChild", []),
    ],
)
def test_what_succeeds_is_done(start, push, ledger, redis, *, tmp_path, fetch, job_class, args):
    (tmp_path / "go").touch()
    worker = start(KIQBRIDGE_FETCH=fetch)
    jid = push(job_class, *args)

    end = end_of(ledger)

    assert (end.jid, end.outcome, end.error, end.retries) == (jid, "done", "", 0)
    assert 0 <= end.took_s < 60
    assert worker.stop() == 0
    assert redis.get("stat:processed") == b"1"
    assert redis.get("stat:failed") in (None, b"0")
    nothing_left(redis)


def test_a_retry_goes_on_and_its_number_is_in_the_end(start, push, ledger, redis):
    start()
    push("Flaky")
    [member] = wait_until(lambda: redis.zrange("retry", 0, -1), 20)
    assert ledger().ends == []
    redis.zadd("retry", {member: 0})

    end = end_of(ledger)

    assert (end.outcome, end.retries) == ("done", 1)


@pytest.mark.parametrize(
    ("fetch", "retry", "outcome"), [("reliable", "0", "dead"), ("basic", "false", "discarded")]
)
def test_what_fails_for_good_has_its_error(start, push, ledger, redis, *, fetch, retry, outcome):
    start(KIQBRIDGE_FETCH=fetch)
    push("Dying", retry=json.loads(retry))

    end = end_of(ledger)

    assert (end.outcome, end.error) == (outcome, "ValueError")
    assert redis.zcard("dead") == (outcome == "dead")


def test_what_middleware_skips_is_skipped(start, push, ledger, tmp_path):
    start()
    push("Skipped")

    assert end_of(ledger).outcome == "skipped"
    assert not (tmp_path / "Skipped").exists()


@pytest.mark.parametrize(
    ("job_class", "outcome", "error"),
    [("Bill", "done", ""), ("Killer", "dead", "kiqbridge.errors.ProcessDied")],
)
def test_a_suspect_that_runs_alone_has_an_end(
    start, push, ledger, redis, *, job_class, outcome, error
):
    push(job_class, *([7] if job_class == "Bill" else []))
    redis.rename("queue:default", "kb:suspects:default")
    start(KIQBRIDGE_ORPHAN_LIMIT="1")

    end = end_of(ledger)

    assert (end.outcome, end.error) == (outcome, error)
    assert redis.zcard("dead") == (outcome == "dead")
