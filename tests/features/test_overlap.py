"""Jobs of a schedule that is still busy, or that come too late: in real workers, however they are performed."""

import time
from pathlib import Path

import pytest
from support.notes import Notes
from support.waiting import wait_until

from kiqbridge.store.ledger import read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

JOBS = Path(__file__).parent / "jobs" / "overlapping.py"


FLAGS = ("-c", "2")
ENV = {"KIQBRIDGE_RECOVER_AFTER_S": "4"}


@pytest.fixture
def seen(tmp_path):
    return Notes(tmp_path)


@pytest.fixture
def push(client):
    """Enqueues the job of an occurrence so many minutes ago, named after it."""
    minute = int(time.time()) // 60 * 60

    def push(job_class, minutes_ago, **policy):
        job = {"class": job_class, "args": [str(minutes_ago)], "retry": False}
        at = minute - 60 * minutes_ago
        outcome = client.push_tick("s", at, [job], by="test", **policy)
        assert outcome.kind == "enqueued"

    return push


def names(seen, event):
    """Of the jobs that noted it."""
    return [note["name"] for note in seen.all(event)]


@pytest.fixture
def outcomes(redis_url):
    """How the job of each occurrence ended, oldest first; "" = it has not."""
    pool = RedisPool(redis_url)

    def outcomes():
        entries = reversed(read_ledger(pool, Keys(), "s"))
        return [next((end.outcome for end in entry.ends), "") for entry in entries]

    yield outcomes
    pool.close()


def wait_for_outcomes(outcomes, *wanted):
    wait_until(lambda: outcomes() == list(wanted), 30, lambda: f"{wanted}, are {outcomes()}")


@pytest.mark.parametrize(
    ("fetch", "job_class"),
    [
        ("basic", "Plain"),
        ("reliable", "Asynchronous"),
        ("reliable", "InChild"),
        ("reliable", "Steps"),
    ],
)
def test_one_is_skipped_while_the_last_one_runs(
    start, push, seen, outcomes, *, redis, job_class, fetch
):
    worker = start(KIQBRIDGE_FETCH=fetch)
    push(job_class, 3, overlap="skip")
    seen.wait("begun")

    push(job_class, 2, overlap="skip")
    wait_for_outcomes(outcomes, "", "skipped")
    seen.release()
    wait_for_outcomes(outcomes, "done", "skipped")
    push(job_class, 1, overlap="skip")

    wait_for_outcomes(outcomes, "done", "skipped", "done")
    assert names(seen, "begun") == ["3", "1"]
    assert names(seen, "middleware") == ["3", "1"]
    wait_until(lambda: not redis.exists("kb:runs"), 10)
    assert worker.stop() == 0
    assert "overlap: skip" in worker.output
    assert (redis.get("stat:processed"), redis.get("stat:failed")) in [(b"3", None), (b"3", b"0")]


def test_the_last_one_is_cancelled_if_it_is_iterable(start, push, seen, outcomes):
    start()
    push("Steps", 3, overlap="cancel")
    seen.wait("begun")

    push("Steps", 2, overlap="cancel")
    wait_for_outcomes(outcomes, "cancelled", "")
    seen.release()

    wait_for_outcomes(outcomes, "cancelled", "done")
    assert names(seen, "begun") == ["3", "2"]
