"""A thousand deliveries of one tick, by all clocks at once, some of which are killed: one job, and each is counted."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import delivering_process
from support.delivering_process import SCHEDULE
from support.waiting import wait_until

from kiqbridge.wire.json_text import loads

DELIVERIES = 1000
CLOCKS = {"lambda": 4, "tick": 3, "worker": 3}
"""Processes of each; every one of them delivers as often."""
EACH = DELIVERIES // sum(CLOCKS.values())
KILLED = {"lambda-0": 0.2, "lambda-1": 0.5, "tick-0": 0.4, "worker-0": 0.1, "worker-1": 0.7}
"""Process → after which part of its deliveries it is killed; another one delivers the rest, as AWS would."""


@pytest.fixture
def deliver(redis_url, tmp_path):
    """Starts a process that delivers so often; all of them end with the test."""
    (tmp_path / "ready").mkdir()
    at = int(time.time()) // 60 * 60
    path = os.pathsep.join(
        [str(Path(delivering_process.__file__).parents[1]), *filter(None, sys.path)]
    )
    with ExitStack() as stack:

        def start(name, count):
            arguments = [name.partition("-")[0], name, str(count), str(tmp_path), str(at)]
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, delivering_process.__file__, *arguments],
                    env={**os.environ, "REDIS_URL": redis_url, "PYTHONPATH": path},
                )
            )
            stack.callback(process.kill)
            return process

        start.at = at
        yield start


def lines(folder, name):
    path = folder / name
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


def test_a_thousand_deliveries_of_a_tick_enqueue_one_job(redis, deliver, tmp_path, tell):
    names = [f"{clock}-{number}" for clock, count in CLOCKS.items() for number in range(count)]
    processes = {name: deliver(name, EACH) for name in names}
    wait_until(lambda: len(list((tmp_path / "ready").iterdir())) == len(names), 60)
    (tmp_path / "go").touch()

    waiting, replaced = dict(KILLED), {}
    killed_at = {}
    while waiting:
        sent = Counter(name for [name] in lines(tmp_path, "sent"))
        for name, part in list(waiting.items()):
            if sent[name] >= part * EACH:
                processes[name].send_signal(signal.SIGKILL)
                processes[name].wait()
                del waiting[name]
                killed_at[name] = Counter(each for [each] in lines(tmp_path, "sent"))[name]
                replaced[name] = deliver(f"{name}-again", EACH - killed_at[name])
    for name in names:
        code = (replaced.get(name) or processes[name]).wait(60)
        assert code == 0, name

    sent, acknowledged = len(lines(tmp_path, "sent")), lines(tmp_path, "acknowledged")
    kinds = Counter(kind for _, kind, _ in acknowledged)
    [entry] = map(loads, redis.zrange(f"kb:ticks:{SCHEDULE}", 0, -1))
    counted = int(redis.hget(f"kb:attempts:{SCHEDULE}", str(deliver.at)))
    cut = sum(at < EACH for at in killed_at.values())
    tell(
        f"{sent} deliveries of one tick by {len(names)} processes ({CLOCKS}), {cut} of them killed with SIGKILL: "
        f"{redis.llen('queue:default')} job, won by {entry['by']}; answered {len(acknowledged)} "
        f"({dict(kinds)}), counted {counted}"
    )
    [job] = map(loads, redis.lrange("queue:default", 0, -1))
    assert [job["jid"]] == entry["jids"]
    assert {jid for _, _, jid in acknowledged} == {job["jid"]}
    assert kinds["enqueued"] <= 1  # the winner may have been killed before it had its answer
    assert set(kinds) <= {"enqueued", "duplicate"}
    assert cut >= 1
    assert sent >= DELIVERIES
    assert len(acknowledged) <= counted <= sent
