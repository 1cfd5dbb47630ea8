"""Jobs of a schedule that is still busy, or that come too late: in real workers, however they are performed."""

import time
from pathlib import Path

import pytest
from support.waiting import wait_until
from support.workers import started_workers

from kiqbridge.clocks.ledger import read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "overlapping.py"


@pytest.fixture
def start(redis_url, tmp_path):
    env = {
        "MARKS": str(tmp_path),
        "KIQBRIDGE_LOG_FORMAT": "plain",
        "KIQBRIDGE_RECOVER_AFTER_S": "4",
    }
    with started_workers("-r", str(JOBS), "-c", "2", env=env, redis_url=redis_url) as start:
        yield start


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


@pytest.fixture
def begun(tmp_path):
    """Names of the jobs that were begun."""
    path = tmp_path / "begun"
    return lambda: path.read_text().split() if path.exists() else []


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
    start, push, begun, outcomes, *, redis, tmp_path, job_class, fetch
):
    worker = start(KIQBRIDGE_FETCH=fetch)
    push(job_class, 3, overlap="skip")
    wait_until(lambda: begun() == ["3"], 20)

    push(job_class, 2, overlap="skip")
    wait_for_outcomes(outcomes, "", "skipped")
    (tmp_path / "go").touch()
    wait_for_outcomes(outcomes, "done", "skipped")
    push(job_class, 1, overlap="skip")

    wait_for_outcomes(outcomes, "done", "skipped", "done")
    assert begun() == ["3", "1"]
    assert (tmp_path / "seen").read_text().split() == ["3", "1"]
    wait_until(lambda: not redis.exists("kb:runs"), 10)
    assert worker.stop() == 0
    assert "overlap: skip" in worker.output
    assert (redis.get("stat:processed"), redis.get("stat:failed")) in [(b"3", None), (b"3", b"0")]


def test_the_last_one_is_cancelled_if_it_is_iterable(start, push, begun, outcomes, tmp_path):
    start()
    push("Steps", 3, overlap="cancel")
    wait_until(lambda: begun() == ["3"], 20)

    push("Steps", 2, overlap="cancel")
    wait_for_outcomes(outcomes, "cancelled", "")
    (tmp_path / "go").touch()

    wait_for_outcomes(outcomes, "cancelled", "done")
    assert begun() == ["3", "2"]
