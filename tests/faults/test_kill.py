"""Workers are killed in the midst of their jobs: every job is performed, and none is lost."""

import random
import signal
from collections import Counter

from support.fleet import (
    KEYS,
    Stopwatch,
    freeze,
    incarnations,
    jids_in_flight,
    lists_in_flight,
)
from support.waiting import wait_until

ROUNDS = 25
BATCH = 80
KILLS = 20
MOST_ROUNDS = 3 * ROUNDS
"""On a busy machine some rounds are over before anybody is met in the midst of a job."""
WORKERS = 3
RECOVER_AFTER_S = 6.0
"""Generous for a busy machine: a worker that is starved for longer would be taken for dead."""


def push(client, milliseconds):
    return client.push_bulk({"class": "Mark", "args": [[ms] for ms in milliseconds]})


def mixed_work(count, rng):
    """Milliseconds per job: runs of next to nothing, which are claimed in chunks, and longer ones."""
    short = [0] * (count * 6 // 10)
    return [*short, *(rng.randint(4, 30) for _ in range(count - len(short)))]


def test_two_thousand_jobs_survive_twenty_kills(fleet, client, redis, tell):
    rng = random.Random(7)
    watch = Stopwatch(redis)
    pushed, begun_at_kill, held_at_kill = [], [], Counter()
    for _ in range(WORKERS):
        fleet.start("-c", "4", recover_after_s=RECOVER_AFTER_S)

    def strike(turn):
        """Kill one worker that has begun a job which is in its lists; whether there was one."""
        fleet.marks.look()
        for worker in fleet.live[turn % WORKERS :] + fleet.live[: turn % WORKERS]:
            if not fleet.marks.running(worker.pid):
                continue
            freeze(worker, redis)
            names = incarnations(redis, worker.pid)
            held = jids_in_flight(redis, names)
            begun = fleet.marks.look().running(worker.pid) & held
            if begun:
                fleet.kill(worker)
                watch.start(names)
                begun_at_kill.append(len(begun))
                held_at_kill.update(held)
                return True
            worker.signal(signal.SIGCONT)
        return False

    def strike_or_done(turn):
        watch.look()
        return strike(turn) or len(fleet.marks.count("performed")) == len(pushed)

    def has_lease(pid):
        watch.look()
        return incarnations(redis, pid)

    turn = 0
    while turn < ROUNDS or (len(begun_at_kill) < KILLS and turn < MOST_ROUNDS):
        turn += 1
        for worker in fleet.live:
            worker.wait_for(lambda pid=worker.pid: has_lease(pid), what="its lease")
        assert len(fleet.live) == WORKERS
        pushed += push(client, mixed_work(BATCH, rng))

        wait_until(
            lambda turn=turn: strike_or_done(turn),
            20,
            "a worker in the midst of a job",
            interval_s=0.002,
        )
        if len(fleet.live) < WORKERS:
            fleet.start("-c", "4", recover_after_s=RECOVER_AFTER_S)

    def performed():
        watch.look()
        return len(fleet.marks.look().count("performed")) == len(pushed)

    wait_until(performed, 30, lambda: f"all jobs: {len(fleet.marks.count('performed'))}")
    wait_until(watch.look, 30, "the leases of the killed being gone")
    wait_until(
        lambda: not lists_in_flight(redis), 10, lambda: f"empty lists: {lists_in_flight(redis)}"
    )
    living = set().union(*(incarnations(redis, worker.pid) for worker in fleet.live))
    registered = incarnations(redis)
    left = {key: redis.zcard(key) for key in ("dead", "retry", "schedule")}
    outputs = "".join(worker.output for worker in fleet.live)
    codes = fleet.stop()

    begins, ends = fleet.marks.look().count("begun"), fleet.marks.count("performed")
    repeated = {jid: count - 1 for jid, count in begins.items() if count > 1}
    seconds = sorted(watch.seconds)
    tell(
        f"kill test: {len(pushed)} jobs, {len(begun_at_kill)} SIGKILLs, "
        f"{sum(begun_at_kill)} jobs begun at a kill ({min(begun_at_kill)} to "
        f"{max(begun_at_kill)} each), {sum(held_at_kill.values())} held; "
        f"performed {len(ends)}, lost {len(pushed) - len(ends)}, begun again {sum(repeated.values())}, "
        f"performed twice {sum(count - 1 for count in ends.values())}; recovered after "
        f"{seconds[0]:.1f} to {seconds[-1]:.1f} s, all {watch.since_last_start:.1f} s after the "
        f"last kill (bound {RECOVER_AFTER_S:.0f} s)"
    )
    assert len(begun_at_kill) >= KILLS
    assert min(begun_at_kill) >= 1
    assert set(ends) == set(pushed)
    assert len(pushed) >= ROUNDS * BATCH
    # Only what a victim held may run again, and only as often as it was held.
    assert {jid: n for jid, n in repeated.items() if n > held_at_kill[jid]} == {}
    assert {jid: n for jid, n in ends.items() if n > 1 + held_at_kill[jid]} == {}
    assert left == {"dead": 0, "retry": 0, "schedule": 0}
    assert registered == living
    assert len(living) == WORKERS
    # One victim may wait longer: those who watched it were killed as well, and others began anew.
    assert watch.since_last_start < RECOVER_AFTER_S
    assert "is gone" not in outputs
    assert codes == [0] * WORKERS
    assert incarnations(redis) == set()
    assert list(redis.scan_iter("kb:claims:*")) == []
    assert not redis.exists("kb:alive", "kb:reaping")
    assert redis.llen(KEYS.queue("default")) == 0


def test_by_default_the_jobs_of_a_killed_worker_are_back_within_thirty_seconds(
    fleet, client, redis, tmp_path, tell
):
    victim = fleet.start("-c", "2", recover_after_s=None)
    victim.wait_for(lambda: incarnations(redis, victim.pid), what="its lease")
    jids = client.push_bulk({"class": "Hold", "args": [[], []]})
    victim.wait_for(lambda: fleet.marks.look().running(victim.pid) == set(jids), what="both jobs")
    other = fleet.start("-c", "2", recover_after_s=None)
    other.wait_for(lambda: incarnations(redis, other.pid), what="its lease")

    freeze(victim, redis)
    names = incarnations(redis, victim.pid)
    assert jids_in_flight(redis, names) == set(jids)
    watch = Stopwatch(redis)
    fleet.kill(victim)
    watch.start(names)
    (tmp_path / "release").touch()
    other.wait_for(watch.look, 40, "the victim's lease being gone")
    other.wait_for(lambda: set(fleet.marks.look().by("performed", other.pid)) == set(jids), 5)

    tell(f"default bound 30 s: jobs were back after {watch.seconds[0]:.1f} s")
    assert watch.seconds[0] < 30
    assert fleet.marks.count("begun") == dict.fromkeys(jids, 2)
    assert fleet.marks.count("performed") == dict.fromkeys(jids, 1)
    assert fleet.stop() == [0]
    assert lists_in_flight(redis) == {}
    assert redis.zcard(KEYS.dead) == 0
