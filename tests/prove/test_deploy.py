"""A rolling restart of three processes under load: finished jobs stay finished, interrupted ones go on."""

import random
import signal
import time
from itertools import pairwise

from support.fleet import incarnations
from support.proving import (
    Pushers,
    counted,
    left_over,
    sized,
    unasked_tracebacks,
    wait_performed,
    wait_settled,
)
from support.waiting import wait_until

WORKERS = 3
ROUNDS = sized(full=4, sample=1)
CONCURRENCY = 4
JOB_MS = 2000
TIMEOUT_S = 1
"""Half of a job: some finish in time, some are interrupted."""
PER_SECOND = 5.0
"""Of six that three processes could do, so that an interrupted job finds a free thread."""
RESUME_WITHIN_S = 5.0


def two_seconds(rng: random.Random) -> dict:
    return {"class": "Work", "args": [JOB_MS + rng.randint(-200, 200)]}


def test_a_rolling_restart_loses_nothing_and_repeats_only_what_it_interrupted(
    fleet, server, redis, tell
):
    def start():
        worker = fleet.start(
            "-c", str(CONCURRENCY), "-t", str(TIMEOUT_S), recover_after_s=None, url=server.url
        )
        worker.wait_for(lambda: incarnations(redis, worker.pid), what="its lease")
        return worker

    deadlines, codes, outputs, took = {}, [], [], []
    with Pushers() as pushers:
        for _ in range(WORKERS):
            start()
        pusher = pushers.start(server.url, two_seconds, per_second=PER_SECOND)
        wait_until(lambda: fleet.marks.look().lines["performed"], 20, "work under way")

        for _ in range(ROUNDS):
            for old in list(fleet.live):
                start()  # as an orchestrator does: the new one first
                wait_until(
                    lambda old=old: fleet.marks.look().running(old.pid), 10, "a job to interrupt"
                )
                asked_at = time.monotonic()
                old.signal(signal.SIGTERM)
                deadlines[old.pid] = asked_at + TIMEOUT_S
                codes.append(old.wait(TIMEOUT_S + 9))
                took.append(time.monotonic() - asked_at)
                outputs.append(old.output)
                fleet.live.remove(old)
        pushers.stop()
        wait_performed(fleet, pusher.sure, 60)
    wait_settled(redis)
    outputs += [worker.output for worker in fleet.live]
    codes += fleet.stop()

    marks = fleet.marks.look()
    begun, performed = marks.count("begun"), marks.count("performed")
    interrupted_at, passed_at = {}, {}
    for (jid, pid), at in zip(marks.lines["interrupted"], marks.times["interrupted"], strict=True):
        interrupted_at[jid] = max(at, interrupted_at.get(jid, 0))
        passed_at[pid] = min(at, passed_at.get(pid, at))
    begun_at = {}
    for (jid, pid), at in zip(marks.lines["begun"], marks.times["begun"], strict=True):
        begun_at.setdefault(jid, []).append((at, pid))
    again = {jid for jid, count in begun.items() if count > 1}
    # From the deadline, at which a job is given back, until somebody begins it again.
    waits = [
        later - deadlines[pid]
        for jid in again
        for (_, pid), (later, _) in pairwise(sorted(begun_at[jid]))
    ]
    # Finished and acknowledged: before its process interrupted the first job. That is its deadline by its own
    # clock, which begins when it handles the signal: later than here, by as much as the machine is busy.
    settled = {
        jid
        for (jid, pid), at in zip(marks.lines["performed"], marks.times["performed"], strict=True)
        if at < passed_at.get(pid, float("inf"))
    }
    executions = len(marks.lines["performed"]) + len(marks.lines["interrupted"])
    tell(
        f"deploy: {WORKERS * ROUNDS} of {WORKERS} processes replaced under {PER_SECOND:.0f} jobs of "
        f"{JOB_MS / 1000:.0f} s a second, {TIMEOUT_S} s to finish; each ended after "
        f"{min(took):.1f} to {max(took):.1f} s; pushed {len(pusher.sure)}, lost "
        f"{len(pusher.sure.keys() - performed.keys())}, interrupted {len(interrupted_at)}, begun again "
        f"after {min(waits, default=0):.2f} to {max(waits, default=0):.2f} s; performed twice "
        f"{sum(n > 1 for n in performed.values())}; stat:processed {counted(redis)} for {executions}"
    )
    assert performed.keys() == pusher.sure.keys()
    assert performed == dict.fromkeys(performed, 1)
    assert interrupted_at
    assert again == interrupted_at.keys()
    assert max(waits) < RESUME_WITHIN_S
    assert settled | again == performed.keys()
    assert counted(redis) == executions
    assert left_over(redis) == {}
    assert incarnations(redis) == set()
    assert unasked_tracebacks("".join(outputs)) == 0
    assert codes == [0] * (WORKERS * ROUNDS + WORKERS)
