"""A fleet in the midst of a deploy: two builds on one server, pushed to by both, killed again and again.

The older build is of the commit before features became folders (docs/decisions/0017).
"""

import io
import json
import random
import subprocess
import sys
import tarfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis as redis_py
from support.fleet import JOBS, incarnations, jids_in_flight, settle
from support.proving import (
    KEYS,
    hold,
    hurry_retries,
    left_over,
    sized,
    unasked_tracebacks,
    wait_settled,
)
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.flow import BatchSet
from kiqbridge.store.ledger import read_ledger

ROOT = Path(__file__).parents[2]
OLDER = "80e85ef0"
COUNT = sized(full=2_000, sample=200)
STORM_S = sized(full=40.0, sample=6.0)
EVERY_S = sized(full=1.0, sample=0.8)
RECOVER_AFTER_S = 6.0
CALLBACKS, LINKS = 2 * 3, COUNT // 10
PUSH = """
import json, sys
from kiqbridge import Client
from mixed import push_all
print(json.dumps(push_all(Client(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
"""


@pytest.fixture(scope="session")
def older(tmp_path_factory):
    """The folder of the older build."""
    git = ["git", "-C", str(ROOT), "archive", OLDER, "worker/kiqbridge"]
    packed = subprocess.run(git, capture_output=True, check=False)
    if packed.returncode:
        # A shallow clone, or an archive of the sources: what it lacks is not of the product.
        pytest.skip(f"the history has no commit {OLDER}: git fetch --unshallow brings it")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "worker"


def push(build, url, instant, marks):
    """What a process of this build has pushed."""
    ran = subprocess.run(
        [sys.executable, "-c", PUSH, url, str(COUNT), str(instant)],
        env={"PYTHONPATH": f"{build}:{JOBS.parent}", "MARKS": str(marks)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


def test_two_builds_lose_nothing_and_double_nothing(fleet, server, tell, older):
    newer = ROOT / "worker"
    rng = random.Random(5)
    held: Counter[str] = Counter()
    builds, killed, outputs = {}, Counter(), []
    with ExitStack() as stack:
        redis = stack.enter_context(redis_py.Redis.from_url(server.url))
        client = stack.enter_context(closing(Client(server.url)))

        def start(build):
            worker = fleet.start(
                *("-c", "4"),
                recover_after_s=RECOVER_AFTER_S,
                url=server.url,
                jobs=JOBS.with_name("mixed.py"),
                python_path=[build, JOBS.parent],
                is_forked=False,
            )
            builds[worker.pid] = build

        for build in (older, newer) * 2:
            start(build)
        fleet.wait_leased(redis)
        instant = int(time.time()) // 60 * 60
        asked = [
            push(build, server.url, instant - before_s, fleet.marks.folder)
            for build, before_s in ((older, 600), (newer, 300))
        ]
        for _ in range(round(STORM_S / EVERY_S)):
            hold(EVERY_S)
            victim = rng.choice(fleet.live)
            build = builds[victim.pid]
            outputs.append(victim.output)
            fleet.kill(victim)
            killed[build] += 1
            settle(redis)
            held.update(jids_in_flight(redis, incarnations(redis, victim.pid)))
            start(build)
        fleet.wait_leased(redis)
        for worker in [each for each in fleet.live if builds[each.pid] == older]:
            outputs.append(worker.output)
            assert worker.stop() == 0
            fleet.live.remove(worker)

        pushed = {kind: [jid for each in asked for jid in each[kind] if jid] for kind in asked[0]}
        bids, doomed = pushed.pop("batches"), set(pushed.pop("doomed"))
        wanted = {jid for jids in pushed.values() for jid in jids}
        in_batches = len(bids) * (COUNT // 10 + 1)

        def all_over():
            hurry_retries(redis)
            performed = fleet.marks.look().count("performed")
            over = [each.success for each in BatchSet(client) if each.bid in bids]
            return (
                performed.keys() >= wanted
                and len(performed) == len(wanted) + in_batches + 2 * (CALLBACKS + LINKS)
                and over == [True] * len(bids)
                and not redis.zcard(KEYS.flow_ends)
            )

        wait_until(
            all_over,
            120,
            lambda: (
                f"all jobs: {len(fleet.marks.count('performed'))} performed; {left_over(redis)}; "
                f"{list(BatchSet(client))}"
            ),
            interval_s=0.2,
        )
        wait_settled(redis, RECOVER_AFTER_S * 2)
        wait_until(lambda: redis.zcard(KEYS.dead) >= len(doomed), what="all deaths")
        dead = [json.loads(text)["jid"] for text in redis.zrange(KEYS.dead, 0, -1)]
        locks, reports = redis.hlen(KEYS.locks), redis.zcard(KEYS.task_reports)
        ticks = read_ledger(client.pool, KEYS, "stack/Often")
        outputs += [worker.output for worker in fleet.live]
        codes = fleet.stop()

    begun, performed = fleet.marks.look().count("begun"), fleet.marks.count("performed")
    failed = fleet.marks.count("failed")
    unexplained = {
        jid
        for jid, count in begun.items()
        if count - 1 - (failed[jid] > 0) * (jid not in doomed) > held[jid]
    }
    unexplained |= {jid for jid, count in performed.items() if count - 1 > held[jid]}
    tell(
        f"mixed fleet: {len(wanted) + in_batches + len(doomed)} jobs pushed by two builds, performed by two "
        f"processes of each under {killed[older]} + {killed[newer]} SIGKILLs; lost "
        f"{len(wanted - performed.keys())}, dead {len(dead)} of {len(doomed)} that were to die, begun again "
        f"{sum(begun.values()) - len(begun)} ({sum(failed[jid] for jid in failed.keys() - doomed)} had failed as "
        f"asked), performed twice {sum(performed.values()) - len(performed)}, held at kills {sum(held.values())}, "
        f"not explained by either {len(unexplained)}; locks left {locks}"
    )
    assert min(killed[older], killed[newer]) > 0
    assert sorted(dead) == sorted(doomed)
    assert unexplained == set()
    assert (locks, reports) == (0, 0)
    assert [(tick.outcome, len(tick.ends)) for tick in ticks] == [("done", COUNT // 10)] * 6
    assert unasked_tracebacks("".join(outputs)) == 0
    assert codes == [0] * 2
