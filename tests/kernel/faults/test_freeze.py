"""Processes that stand still and wake up again: a worker past its lease, and Redis itself."""

import signal

import pytest
from support.fleet import (
    KEYS,
    Stopwatch,
    freeze,
    incarnations,
    is_frozen,
    jids_in_flight,
    lists_in_flight,
    settle,
)
from support.waiting import wait_until

pytestmark = pytest.mark.slow

RECOVER_AFTER_S = 3.0
ATTEMPTS = 5


def push(client, count, work_ms):
    return client.push_bulk({"class": "Mark", "args": [[work_ms]] * count})


def frozen_with_unbegun_jobs(fleet, client, redis):
    """A worker that froze in the midst of its chunks: (worker, pushed, begun, not begun).

    It freezes itself at an instant at which all its threads are inside a job, so that it is exact
    what it had begun.
    """
    pushed = []
    for _ in range(ATTEMPTS):
        pushed += push(client, 1000, 0)
        worker = fleet.start(
            "-c",
            "3",
            recover_after_s=RECOVER_AFTER_S,
            env={"FREEZE_AFTER": "300", "FREEZE_THREADS": "3"},
        )
        worker.wait_for(lambda pid=worker.pid: is_frozen(pid), what="its freeze")
        settle(redis)
        held = jids_in_flight(redis, incarnations(redis, worker.pid))
        begun = fleet.marks.look().running(worker.pid)
        unbegun = held - set(fleet.marks.by("begun", worker.pid))
        assert len(begun) == 3
        assert begun <= held
        if unbegun:
            return worker, pushed, begun, unbegun
        fleet.kill(worker)  # its prefetch revoker was faster; what it held is recovered as well
    raise AssertionError(f"no chunk was out in {ATTEMPTS} attempts")


def test_a_worker_frozen_past_its_lease_begins_nothing_of_what_was_given_to_others(
    fleet, client, redis, tell
):
    frozen, pushed, begun, unbegun = frozen_with_unbegun_jobs(fleet, client, redis)
    before = incarnations(redis, frozen.pid)
    marks_before = len(fleet.marks.by("begun", frozen.pid))
    watch = Stopwatch(redis)
    watch.start(before)

    other = fleet.start("-c", "3", recover_after_s=RECOVER_AFTER_S)
    other.wait_for(watch.look, 20, "the frozen worker's lease being taken")
    other.wait_for(
        lambda: set(fleet.marks.look().by("performed", other.pid)) >= begun | unbegun,
        what="its jobs performed by the other worker",
    )
    assert len(fleet.marks.by("begun", frozen.pid)) == marks_before

    frozen.signal(signal.SIGCONT)
    frozen.wait_for(lambda: incarnations(redis, frozen.pid), what="a new lease")
    after = incarnations(redis, frozen.pid)
    frozen.wait_for(
        lambda: begun <= set(fleet.marks.look().by("performed", frozen.pid)), what="begun jobs' end"
    )
    other.wait_for(lambda: fleet.marks.look().count("performed").keys() >= {*pushed}, what="all")
    assert other.stop() == 0
    fleet.live.remove(other)
    new = push(client, 60, 5)
    frozen.wait_for(
        lambda: set(fleet.marks.look().by("performed", frozen.pid)) >= {*new}, what="the new jobs"
    )
    wait_until(lambda: not lists_in_flight(redis), 10, lambda: f"{lists_in_flight(redis)}")

    begins = fleet.marks.look().count("begun")
    again = set(fleet.marks.by("begun", frozen.pid)[marks_before:])
    tell(
        f"freeze test: {len(begun)} begun and {len(unbegun)} unbegun jobs at the freeze; "
        f"given to another worker after {watch.seconds[0]:.1f} s (bound {RECOVER_AFTER_S:.0f} s); "
        f"after waking it began {len(again & unbegun)} of the unbegun, none of the begun anew, "
        f"and {len(again)} new ones as a new incarnation; performed {len(begins)} of "
        f"{len(pushed) + len(new)}"
    )
    assert again & (unbegun | begun) == set()
    assert again == {*new}
    assert {jid: begins[jid] for jid in unbegun} == dict.fromkeys(unbegun, 1)
    assert {jid: begins[jid] for jid in begun} == dict.fromkeys(begun, 2)
    assert begins.keys() == {*pushed, *new}
    assert len(after) == 1
    assert not after & before
    assert "jobs not begun are dropped here" in frozen.output
    assert fleet.stop() == [0]
    assert incarnations(redis) == set()
    assert redis.zcard(KEYS.dead) == 0


def test_a_short_freeze_costs_nothing(fleet, client, redis):
    workers = [fleet.start("-c", "3", recover_after_s=10) for _ in range(2)]
    leases = fleet.wait_leased(redis)
    jids = push(client, 400, 10)
    workers[0].wait_for(lambda: fleet.marks.look().running(workers[0].pid), what="a running job")

    freeze(workers[0], redis)
    begun = len(fleet.marks.look().lines["begun"])
    workers[1].wait_for(lambda: len(fleet.marks.look().lines["begun"]) > begun + 50)
    workers[0].signal(signal.SIGCONT)

    wait_until(lambda: len(fleet.marks.look().count("performed")) == len(jids), 20, "all jobs")
    wait_until(lambda: not lists_in_flight(redis), 10, lambda: f"{lists_in_flight(redis)}")
    assert fleet.marks.look().count("begun") == dict.fromkeys(jids, 1)
    assert incarnations(redis) == leases
    assert fleet.stop() == [0, 0]
