"""Idle fleets, from one process to a thousand: what a push costs, and how soon it is picked up."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.outcome import OURS, PEERS, RUBY, Outcome, at_most, median, percentile
from benchmarks.sides import QUIET_RUBY, Start, Work, all_sides
from benchmarks.stage import Stage, cpu_seconds, on_core
from support.waiting import wait_until
from support.wake_fleet import QUEUES

from kiqbridge import Client

PUSHES_A_SECOND = 100
MEMBERS_A_PROCESS = 250
LIMIT = 8
"""Commands that clients send for a push, in the whole fleet."""
LIMIT_IN_ALL = 12
"""The same with those inside scripts."""
REAL_THREADS = 5
START_S = 0.6
"""After so many seconds for each of them whole workers have sent all that their start sends."""
REAL_PYTHON = """
import os, time
from kiqbridge import job

evidence = os.open({path!r}, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

@job(name="LateJob")
def late(since):
    os.write(evidence, b"%d %.6f\\n" % (os.getpid(), time.time() - since))
"""
REAL_RUBY = (
    QUIET_RUBY
    + """
class LateJob
  include Sidekiq::Worker
  EVIDENCE = File.open('{path}', 'a')
  def perform(since)
    EVIDENCE.syswrite(format("%d %.6f\\n", Process.pid, Time.now.to_f - since))
  end
end
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one fleet: commands for each push, as clients send them and those inside scripts; what the server writes to
    clients for each, replies and reports, as writes and bytes; CPU for each of the server and of all processes, in
    microseconds; how late the jobs were, in milliseconds; jobs of the busiest process by the mean."""

    sent: float
    inside: float
    writes: float
    bytes: float
    cpu_us: float
    fleet_us: float
    p50: float
    p99: float
    spread: float

    def __str__(self) -> str:
        return (
            f"{self.sent:.1f} commands sent and {self.inside:.1f} inside scripts a push, {self.writes:.0f} writes of "
            f"{self.bytes:.0f} bytes, server CPU {self.cpu_us:.0f} µs, CPU of the processes {self.fleet_us:.0f} µs, "
            f"picked up after p50 {self.p50:.2f} ms, p99 {self.p99:.2f} ms, busiest process {self.spread:.1f} times the mean"
        )


def fleet(stage: Stage) -> list[Outcome]:
    """Idle fleets of several sizes, ours beside one of BRPOP clients, and a steady trickle of pushes."""
    outcomes = []
    for size in stage.sizes.fleets:
        costs: dict[str, Cost] = {}
        for name, kind in ((OURS, "listen"), (RUBY, "brpop")):
            stage.progress.step(f"{size} idle processes, {name}")
            costs[name] = measure(stage, size, kind)
        outcomes.append(
            Outcome(
                what=f"{size:,} idle processes, {PUSHES_A_SECOND} pushes/s: commands sent for a push",
                unit="commands",
                samples={name: [cost.sent] for name, cost in costs.items()},
                target=f"≤ {LIMIT}",
                met=at_most(costs[OURS].sent, LIMIT),
                note=f"ours: {costs[OURS]}; clients that fetch by BRPOP as Sidekiq does: {costs[RUBY]}",
            )
        )
    return outcomes


def real_fleet(stage: Stage) -> list[Outcome]:
    """The same with whole workers, each a process of its own, beside as many of Sidekiq."""
    outcomes = []
    for size in stage.sizes.real_fleets:
        costs = {}
        for name, start in all_sides(stage).items():
            stage.progress.step(f"{size} idle workers, {name}")
            costs[name] = measure(stage, size, name, start)
        asked = f"{size} idle workers" if size > 1 else "one idle worker"
        outcomes += [
            Outcome(
                what=f"commands at Redis for a push, {asked}",
                unit="commands",
                samples={name: [cost.sent + cost.inside] for name, cost in costs.items()},
                target=f"≤ {LIMIT_IN_ALL}",
                met=at_most(costs[OURS].sent + costs[OURS].inside, LIMIT_IN_ALL),
                note=f"{REAL_THREADS} threads each, {PUSHES_A_SECOND} pushes/s; those inside scripts counted; "
                + "; ".join(f"{name}: {cost}" for name, cost in costs.items()),
                decides=size == stage.sizes.real_fleets[-1],
            ),
            Outcome(
                what=f"pick-up, p50, {asked}",
                unit="ms",
                samples={name: [cost.p50] for name, cost in costs.items()},
                target="≤ 1.0 x Sidekiq",
                met=at_most(costs[OURS].p50 / costs[RUBY].p50, 1.0) if RUBY in costs else None,
            ),
        ]
    return outcomes


def measure(stage: Stage, size: int, kind: str, start: Start | None = None) -> Cost:
    """One fleet of so many incarnations, a few processes' worth of threads; or of workers that `start` starts."""
    evidence = stage.folder / f"fleet-{kind}-{size}"
    evidence.unlink(missing_ok=True)
    stage.client.flushdb()
    pushes = max(int(PUSHES_A_SECOND * stage.sizes.fleet_s), 1)
    fleet = (
        members(stage, size, kind, evidence)
        if start is None
        else workers(stage, size, evidence, start)
    )
    with fleet as pids:
        settle(stage, size, kind)
        used, before = sum(map(cpu_seconds, pids)), server_figures(stage)
        push_paced(stage, evidence, pushes)
        fleet_s, after = sum(map(cpu_seconds, pids)) - used, server_figures(stage)
        performed = lines(evidence)
        # Apart, since watching costs the server more than what is watched.
        with counted_commands(stage) as counts:
            push_paced(stage, evidence, pushes)
    late = [float(line.split()[1]) * 1000 for line in performed]
    jobs = Counter(line.split()[0] for line in performed)
    return Cost(
        sent=counts["sent"] / pushes,
        inside=counts["inside"] / pushes,
        writes=(after.writes - before.writes) / pushes,
        bytes=(after.bytes - before.bytes) / pushes,
        cpu_us=(after.cpu_s - before.cpu_s) / pushes * 1e6,
        fleet_us=fleet_s / pushes * 1e6,
        p50=median(late),
        p99=percentile(late, 99),
        # A fleet that is larger than the number of jobs cannot be served evenly.
        spread=max(jobs.values()) / max(pushes / size, 1.0),
    )


@contextlib.contextmanager
def members(stage: Stage, size: int, kind: str, evidence: Path) -> Iterator[list[int]]:
    """The incarnations, in processes of their own that end with this; the ids of these."""
    command = [sys.executable, "-m", "support.wake_fleet", stage.server.url]
    tests = str(Path(__file__).parents[1])
    children = []
    try:
        for first in range(0, size, MEMBERS_A_PROCESS):
            count = str(min(MEMBERS_A_PROCESS, size - first))
            with on_core(None):
                child = subprocess.Popen(
                    [*command, count, str(evidence), kind],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": tests},
                )
            children.append(child)
        for child in children:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
        yield [child.pid for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()


@contextlib.contextmanager
def workers(stage: Stage, size: int, evidence: Path, start: Start) -> Iterator[list[int]]:
    """Workers, killed in the end; their process ids."""
    work = Work(
        python=REAL_PYTHON.format(path=str(evidence)),
        ruby=REAL_RUBY.format(path=evidence),
        threads=REAL_THREADS,
        queues=QUEUES,
    )
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(size):
            with on_core(None):
                started.append(stack.enter_context(start(stage, work)))
        stage.wait_listed(started[-1], size, 120)
        yield [each.pid for each in started]


def settle(stage: Stage, size: int, kind: str) -> None:
    """Wait until all wait, and one listens."""

    def waiting() -> bool:
        commands = Counter(
            client.get("cmd", "").lower() for client in stage.client.client_list(_type="normal")
        )
        if kind in ("brpop", *PEERS):
            return commands["brpop"] >= size * (REAL_THREADS if kind in PEERS else 1)
        return commands["blpop"] >= size - 1

    wait_until(waiting, 120, "all being idle", interval_s=0.1)
    if kind in (OURS, *PEERS):
        time.sleep(min(size * START_S, 30))  # what starts send is not what is measured
    if kind in ("listen", OURS):
        time.sleep(1.5)  # who is alone knows it after two renewals of its sign


class Figures(NamedTuple):
    """What a server says of itself: seconds of CPU, writes to clients and bytes of them."""

    cpu_s: float
    writes: int
    bytes: int


def server_figures(stage: Stage) -> Figures:
    info = stage.client.info()
    return Figures(
        float(info["used_cpu_user"] + info["used_cpu_sys"]),
        int(info["total_writes_processed"]),
        int(info["total_net_output_bytes"]),
    )


@contextlib.contextmanager
def counted_commands(stage: Stage) -> Iterator[Counter[str]]:
    """How many commands clients send meanwhile (`sent`), and how many scripts call (`inside`)."""
    counts: Counter[str] = Counter()
    address = ("127.0.0.1", stage.server.port)
    with socket.create_connection(address) as sock, sock.makefile("rb") as answers:
        sock.sendall(b"MONITOR\r\n")
        assert answers.readline() == b"+OK\r\n"

        def count() -> None:
            for line in answers:
                if b'"the end of the count"' in line:
                    return
                counts["inside" if b" lua] " in line else "sent"] += 1

        counting = threading.Thread(target=count, daemon=True)
        counting.start()
        yield counts
        stage.client.echo("the end of the count")
        counting.join(30)


def push_paced(stage: Stage, evidence: Path, pushes: int) -> None:
    """So many pushes by the clock; wait until all are performed."""
    until = len(lines(evidence)) + pushes
    client = Client(stage.server.url)
    began = time.perf_counter()
    for number in range(pushes):
        due = began + (number + random.uniform(-0.3, 0.3)) / PUSHES_A_SECOND
        time.sleep(max(due - time.perf_counter(), 0))
        client.push({"class": "LateJob", "args": [time.time()]})
    client.close()
    wait_until(lambda: len(lines(evidence)) >= until, 60, "all jobs being performed")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


MEASURES: Sequence = (fleet, real_fleet)
