"""Workers are killed in the midst of unique jobs: each is performed, and at the end every lock is free."""

import pytest
from support.waiting import wait_until

from kiqbridge.flow import Unique

KEYS = 12
KILLS = 3
RECOVER_AFTER_S = 6.0
"""Generous for a busy machine: a worker that is starved for longer would be taken for dead."""


def push(client, key):
    """A job of some 100 ms; None: one of its key lives."""
    return client.push({"class": "Mark", "args": [100 + key], "unique": Unique()})


@pytest.mark.slow
def test_no_lock_outlives_its_job_when_workers_are_killed(fleet, client, redis, tell):
    for _ in range(2):
        fleet.start("-c", "2", recover_after_s=RECOVER_AFTER_S)
    pushed, refused = {}, 0

    def push_all():
        nonlocal refused
        for key in range(KEYS):
            jid = push(client, key)
            if jid is None:
                refused += 1
            else:
                pushed[jid] = key

    def running():
        fleet.marks.look()
        return next((each for each in fleet.live if fleet.marks.running(each.pid)), None)

    for _ in range(KILLS):
        push_all()
        push_all()
        wait_until(lambda: running() is not None, 30, "a job that runs")
        worker = running()
        if worker is not None:
            fleet.kill(worker)
            fleet.start("-c", "2", recover_after_s=RECOVER_AFTER_S)

    def all_performed():
        return pushed.keys() <= fleet.marks.look().count("performed").keys()

    wait_until(all_performed, 60, "each unique job being performed", interval_s=0.05)
    wait_until(lambda: not redis.exists("kb:locks"), 60, "every lock being free", interval_s=0.05)

    performed = fleet.marks.look().count("performed")
    tell(
        f"{KILLS} SIGKILLs: {len(pushed)} unique jobs of {KEYS} keys performed, again "
        f"{performed.total() - len(performed)}; {refused} pushes refused; no lock left"
    )
    assert performed.keys() == pushed.keys()
    assert refused > 0
    assert not redis.exists("kb:locks:look", "kb:flow:ends", "dead", "retry")
    assert all(push(client, key) is not None for key in range(KEYS))
