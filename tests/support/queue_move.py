"""A queue that goes from the shard `old` to `new` while clients push, workers run, and all of them are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import redis as redis_py

from kiqbridge.errors import KiqbridgeError, PushOutcomeUnknown
from kiqbridge.flow import Unique
from support.fleet import Fleet, incarnations, jids_in_flight, settle
from support.shards import Sharded
from support.waiting import wait_until

GLOBS = {"old": ["*"], "new": ["new-*"]}
BATCH = "kb:moving:default"
RECOVER_AFTER_S = 6.0
"""Generous for a busy machine: a worker that is starved for longer would be taken for dead."""


class Pushing(threading.Thread):
    """Pushes all kinds of jobs until it is stopped, as a client that lives through the move."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.stopped = client, threading.Event()
        self.sure: set[str] = set()
        self.guarded: dict[str, str] = {}
        self.doubled: list[str] = []
        self.rng = random.Random(5)

    def run(self):
        number = 0
        while not self.stopped.is_set():
            number += 1
            try:
                self.push(number)
            except PushOutcomeUnknown:
                pass
            except KiqbridgeError:
                self.stopped.wait(0.05)
            self.stopped.wait(0.01)

    def push(self, number):
        item = {"class": "Mark", "args": [self.rng.choice([0, 0, 5, 20])]}
        kind = number % 4
        if kind == 0:
            self.sure.add(self.client.push(item))
        elif kind == 1:
            self.sure.add(self.client.push({**item, "at": time.time() + self.rng.random() * 4}))
        elif kind == 2:
            jid = self.client.push({**item, "args": [number % 50], "unique": Unique()})
            self.sure |= {jid} if jid else set()
        else:
            # Each key again and again, before, during and after the move.
            key = f"key {number // 4 % 40}"
            jid = self.client.push_once([item], [key])[0].jid
            if self.guarded.setdefault(key, jid) != jid:
                self.doubled.append(key)
            self.sure.add(jid)


def move(environ, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "kiqbridge", "queue", "move", "default", "--to", "new", "--force", *more],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Storm:
    """What came of it.

    Attributes:
        expected: jobs that were surely pushed.
        killed: how often the command was killed, and `in_between`: while a batch was on its way.
        held: jobs that killed workers held.
        doubled: keys under which more than one job was pushed.
    """

    expected: set[str] = field(default_factory=set)
    killed: int = 0
    in_between: int = 0
    held: set[str] = field(default_factory=set)
    performed: Counter[str] = field(default_factory=Counter)
    doubled: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    @property
    def unexplained(self) -> set[str]:
        """Performed twice, and no killed worker held them."""
        return {jid for jid, count in self.performed.items() if count > 1} - self.held

    def __str__(self) -> str:
        twice = sum(count > 1 for count in self.performed.values())
        return (
            f"{len(self.expected)} jobs, {self.killed} SIGKILLs of the command, {self.in_between} of them with a batch on its "
            f"way: lost {len(self.expected - self.performed.keys())}, performed twice {twice}, of these not explained by a "
            f"killed worker {len(self.unexplained)}; guarded pushes doubled {len(self.doubled)}"
        )


def is_frozen_with_a_batch(command: subprocess.Popen[bytes], old: redis_py.Redis) -> bool:
    """Freeze the command; it stays so if a batch is on its way just then. Also true once it has ended."""
    if command.poll() is not None:
        return True
    command.send_signal(signal.SIGSTOP)
    if old.exists(BATCH):
        return True
    command.send_signal(signal.SIGCONT)
    return False


def storm(shards: Sharded, fleet: Fleet, *, kills: int, worker_kills: int, waiting: int) -> Storm:
    """Move the queue under kills; ends once each job was performed.

    Args:
        shards: `old` and `new`, by `GLOBS`.
        fleet: without workers; it gets one for each shard.
        kills: of the command, one after the other.
        worker_kills: how many of these are followed by that of a worker.
        waiting: jobs that wait at each kill, pushed to the old shard as Ruby would.
    """
    rng, result = random.Random(11), Storm()
    client, pushing = shards.client(), Pushing(shards.client())
    old = shards.raw["old"]
    result.expected |= set(
        client.push_bulk({"class": "Mark", "args": [[5]] * 100, "at": time.time() + 8})
    )
    urls = {name: str(each["url"]) for name, each in shards.setting.items()}
    workers = {
        name: fleet.start("-c", "2", recover_after_s=RECOVER_AFTER_S, url=url)
        for name, url in urls.items()
    }
    pushing.start()
    try:
        for number in range(kills):
            result.expected |= set(
                client.on("old").push_bulk({"class": "Mark", "args": [[1]] * waiting})
            )
            with move(shards.environ) as command:
                if number % 3:
                    # In the midst of a batch, unless all is moved before it is seen.
                    wait_until(
                        lambda each=command: is_frozen_with_a_batch(each, old),
                        60,
                        "a batch on its way",
                        interval_s=0.0002,
                    )
                else:
                    time.sleep(rng.uniform(0.3, 2.0))  # when it is killed is the fault itself
                result.killed += command.poll() is None
                command.send_signal(signal.SIGKILL)
            result.in_between += old.exists(BATCH)
            if number < worker_kills:
                name = ("old", "new")[number % 2]
                fleet.kill(workers[name])
                settle(shards.raw[name])
                names = incarnations(shards.raw[name], workers[name].pid)
                result.held |= jids_in_flight(shards.raw[name], names)
                workers[name] = fleet.start(
                    "-c", "2", recover_after_s=RECOVER_AFTER_S, url=urls[name]
                )
            if number == kills // 2:
                shards.raw["new"].execute_command("CLIENT", "PAUSE", 700, "ALL")
        with move(shards.environ, "--json") as command:
            out, _ = command.communicate(timeout=120)
        assert command.returncode == 0, out
        assert json.loads(out)["away"] == []
    finally:
        pushing.stopped.set()
    pushing.join(30)
    result.expected |= pushing.sure
    wait_until(
        lambda: fleet.marks.look().count("performed").keys() >= result.expected,
        120,
        lambda: f"all jobs: {len(result.expected - fleet.marks.count('performed').keys())} missing",
        interval_s=0.1,
    )
    result.codes = fleet.stop()
    result.performed, result.doubled = fleet.marks.look().count("performed"), pushing.doubled
    client.close()
    return result


def check(result: Storm, shards: Sharded) -> None:
    """What must be so after a storm."""
    assert result.doubled == []
    assert result.unexplained == set()
    assert result.performed.keys() >= result.expected
    assert result.killed > 0
    assert not any(raw.exists(BATCH, "dead") for raw in shards.raw.values())
    assert shards.client().shard_of("default") == "new"
    assert result.codes == [0, 0]
