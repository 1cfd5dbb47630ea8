"""Workers are killed while they run the jobs of schedules: each job that is gone has one end in the ledger."""

import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from support.waiting import wait_until
from support.workers import started_workers

from kiqbridge.store.ledger import read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.json_text import loads
from kiqbridge.wire.keys import Keys

JOBS = Path(__file__).parent / "step_functions" / "jobs" / "tasks.py"
TICKS = 120
CLASSES = ("Working", "WorkingLoop", "WorkingChild", "Dying", "Bill")
KILLED_AFTER = (4, 10, 16)
"""Performed jobs of class Working after which the worker is killed."""


def have_performed(marks, count):
    return marks.exists() and len(marks.read_text()) >= count


def jids_in(redis):
    """The jobs that Redis holds, wherever it is, but for the dead."""
    texts = redis.lrange("queue:default", 0, -1) + redis.zrange("retry", 0, -1)
    for key in redis.scan_iter("kb:inflight:*"):
        texts += redis.lrange(key, 0, -1)
    for key in redis.scan_iter("kb:suspects:*"):
        texts += redis.lrange(key, 0, -1)
    return {loads(text)["jid"] for text in texts}


def ends_of(pool):
    entries = [entry for name in CLASSES for entry in read_ledger(pool, Keys(), name, most=TICKS)]
    return {
        jid: [end for end in entry.ends if end.jid == jid]
        for entry in entries
        for jid in entry.jids
    }


@pytest.mark.slow
def test_each_job_that_is_gone_has_one_end_whatever_is_killed(
    redis, redis_url, client, tmp_path, tell
):
    marks = tmp_path / "Working"
    env = {
        "MARKS": str(tmp_path),
        "KIQBRIDGE_RECOVER_AFTER_S": "4",
        "KIQBRIDGE_ORPHAN_LIMIT": "9",
        "KIQBRIDGE_LOG_FORMAT": "plain",
    }
    minute = int(time.time()) // 60
    for number in range(TICKS):
        name = CLASSES[number % len(CLASSES)]
        job = {"class": name, "args": [7] if name == "Bill" else [], "retry": 0}
        client.push_tick(name, (minute - number) * 60, [job], by="test")
    pool = RedisPool(redis_url)
    with started_workers("-r", str(JOBS), "-c", "4", env=env, redis_url=redis_url) as start:
        worker = start()
        for count in KILLED_AFTER:
            wait_until(partial(have_performed, marks, count), 60)
            worker.kill()
            # Nobody is at work: what has an end is gone, and what is gone has one.
            held, ends = jids_in(redis), ends_of(pool)
            assert {jid for jid, found in ends.items() if found} == ends.keys() - held
            worker = start()
        wait_until(lambda: not jids_in(redis), 90, lambda: f"{len(jids_in(redis))} left")
        assert worker.stop() == 0

    ends = ends_of(pool)
    pool.close()
    outcomes = Counter(end.outcome for found in ends.values() for end in found)
    performed = sum(len(path.read_text()) for path in tmp_path.iterdir())
    tell(
        f"{TICKS} ticks on threads, event loop and child processes, {len(KILLED_AFTER)} SIGKILLs: {len(ends)} jobs, "
        f"ends {dict(outcomes)}; performed {performed} of those that leave a mark"
    )
    assert len(ends) == TICKS
    assert {len(found) for found in ends.values()} == {1}
    assert outcomes == {"done": TICKS * 4 // 5, "dead": TICKS // 5}
