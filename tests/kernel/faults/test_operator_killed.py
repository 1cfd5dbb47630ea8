"""An operator's action is killed in the midst, and run again: each job is moved once, and counted once."""

import json
import random
import signal
import sys

import pytest
from support.processes import ChildProcess
from support.waiting import wait_until

from kiqbridge.api import open_operator, read_audit

JOBS = 24_000
KILLS = 5

RETRY = "DeadSet(operator).apply_all('retry')"
MOVE = "Queue('default', operator).apply_all('move', to='low')"
SCRIPT = """
import sys
from kiqbridge.api import DeadSet, Queue, open_operator
operator = open_operator(sys.argv[1], by="ann")
print("moved", {action}, flush=True)
"""


def text(number):
    item = {"class": "Mail", "args": [number], "jid": f"{number:024x}", "queue": "default"}
    return json.dumps({"retry": True, **item, "created_at": 1700000000.5, "retry_count": 3})


def jids(redis, key):
    return [json.loads(each)["jid"] for each in redis.lrange(key, 0, -1)]


@pytest.mark.parametrize(
    ("action", "target"), [(RETRY, "queue:default"), (MOVE, "queue:low")], ids=["retry", "move"]
)
@pytest.mark.slow
def test_an_action_that_is_killed_and_repeated_moves_each_job_once(
    redis, redis_url, action, target, tell
):
    rng = random.Random(11)
    for first in range(0, JOBS, 1000):
        texts = [text(number) for number in range(first, first + 1000)]
        if action == RETRY:
            redis.zadd("dead", dict.fromkeys(texts, first))
        else:
            redis.lpush("queue:default", *texts)
    command = [sys.executable, "-c", SCRIPT.format(action=action), redis_url]
    killed_at = []
    while len(killed_at) < KILLS:
        enough = redis.llen(target) + rng.randint(1, JOBS // (KILLS + 1))
        with ChildProcess(command) as child:
            wait_until(lambda enough=enough: redis.llen(target) >= enough, 30, interval_s=0.0005)
            child.signal(signal.SIGKILL)
            child.wait()
            assert "moved" not in child.output
        killed_at.append(redis.llen(target))

    with ChildProcess(command) as child:
        assert child.wait(30) == 0

    operator = open_operator(redis_url)
    entries = read_audit(operator)
    operator.client.close()
    tell(f"{action.partition('(')[0]}: {JOBS:,} jobs, killed with {killed_at} of them moved")
    assert sorted(jids(redis, target)) == [f"{number:024x}" for number in range(JOBS)]
    assert not redis.exists("dead" if action == RETRY else "queue:default")
    assert len(entries) == KILLS + 1
    assert sum(entry.count for entry in entries) == JOBS
    # Not that of the first entry: they are in the order of a clock that may be set meanwhile.
    assert child.output.strip() in [f"moved {entry.count}" for entry in entries]
