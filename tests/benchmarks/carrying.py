"""What one server carries: its CPU for each step of a job, beside Sidekiq's, and its own limit.

The server counts the CPU time of all its threads (`INFO cpu`); what it spends while nothing happens is
measured first and taken off.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import redis
from benchmarks.enqueuing import (
    PYTHON_BULK,
    PYTHON_LOOP,
    RUBY_BULK,
    RUBY_LOOP,
    run_python,
    run_ruby_script,
)
from benchmarks.latency import RUBY_POLLS_OFTEN, prepare_due
from benchmarks.outcome import OURS, RUBY, Outcome, at_least, median
from benchmarks.sides import NOOP, Start, Work, ours, running, sides
from benchmarks.stage import (
    PATIENT,
    SERVER_CORE,
    STORE,
    WORKER_CORE,
    Stage,
    bench_binaries,
    on_core,
    server_title,
    start_server,
)
from benchmarks.throughput import SLEEPS_ASYNC
from support.waiting import wait_until

TARGET = 8
TIMEOUT_S = 120
LOOK_S = 0.05
"""Seldom, since the server would count the looks."""
IDLE_S = 0.5
CONNECTIONS = 50
LIMIT_ROUNDS = 3
BRPOP = "Sidekiq's BRPOP"
LATER_LOOPS = tuple(
    script.replace("no_op.perform_async(number)", "no_op.perform_in(3600, number)").replace(
        "NoOpJob.perform_async(number)", "NoOpJob.perform_in(3600, number)"
    )
    for script in (PYTHON_LOOP, RUBY_LOOP)
)
FAILS = replace(
    NOOP,
    python="""
from kiqbridge import job

@job(name="NoOpJob")
def fails(number):
    raise RuntimeError("each time")
""",
    ruby="""
class NoOpJob
  include Sidekiq::Worker
  def perform(number)
    raise 'each time'
  end
end
""",
    level="fatal",
)
ONE_BY_ONE = replace(NOOP, env={"KIQBRIDGE_LOOK_AHEAD": "1"})

Samples = Mapping[str, Sequence[float]]


@dataclass(slots=True)
class Meter:
    """Server CPU of what happens within `with`, for each of `count` jobs, µs, in `us`."""

    client: redis.Redis
    count: int
    idle_share: float
    us: float = 0

    def __enter__(self) -> Self:
        self._began, self._cpu = time.perf_counter(), server_cpu_s(self.client)
        return self

    _began: float = 0
    _cpu: float = 0

    def __exit__(self, *_: object) -> None:
        spent = server_cpu_s(self.client) - self._cpu
        spent -= self.idle_share * (time.perf_counter() - self._began)
        self.us = max(spent, 0) / self.count * 1_000_000


def server_cpu_s(client: redis.Redis) -> float:
    """CPU seconds of all threads of the server since it started."""
    found = client.info("cpu")
    return found["used_cpu_sys"] + found["used_cpu_user"]


def idle_share(client: redis.Redis) -> float:
    """CPU seconds a second of a server to which nobody speaks."""
    before, began = server_cpu_s(client), time.perf_counter()
    time.sleep(IDLE_S)  # doing nothing for so long is what is measured
    return (server_cpu_s(client) - before) / (time.perf_counter() - began)


def server(stage: Stage) -> list[Outcome]:
    """CPU of the server for each step of a job, and for its whole way, beside Sidekiq's."""
    steps = measure_steps(stage)
    sizes = stage.sizes
    notes = {
        "single push": f"{sizes.pushes:,} pushes, one client; the wire's share: a PING costs {_ping_us(stage):.1f} µs",
        "bulk push of 1,000s": f"{sizes.bulk:,} jobs",
        "claim and acknowledge, up to 100 at once": f"{sizes.noop:,} no-op jobs, worker -c 10: jobs under 20 ms; Sidekiq: BRPOP, which acknowledges nothing",
        "claim and acknowledge, one by one": f"{sizes.failing:,} no-op jobs, KIQBRIDGE_LOOK_AHEAD=1: what jobs over 20 ms cost",
        "claim and acknowledge, 500 async jobs": f"{sizes.io_async:,} jobs of 10 ms on the event loop",
        "claim, fail and write to `retry`": f"{sizes.failing:,} jobs, all of which fail",
        "single push into `schedule`": f"{sizes.pushes:,} pushes, one client",
        "moving a due job to its queue": f"{sizes.due:,} jobs, from `schedule`; the same for `retry`",
    }
    lines = [
        Outcome(what=f"server CPU: {name}", unit="µs a job", samples=samples, note=notes[name])
        for name, samples in steps.items()
    ]
    return lines + [_whole(name, [steps[step] for step in way]) for name, way in WAYS.items()]


WAYS = {
    "pushed in bulk, short": ("bulk push of 1,000s", "claim and acknowledge, up to 100 at once"),
    "pushed singly, short": ("single push", "claim and acknowledge, up to 100 at once"),
    "pushed singly, over 20 ms": ("single push", "claim and acknowledge, one by one"),
    "pushed in bulk, fails once": (
        "bulk push of 1,000s",
        "claim, fail and write to `retry`",
        "moving a due job to its queue",
        "claim and acknowledge, up to 100 at once",
    ),
    "scheduled singly, short": (
        "single push into `schedule`",
        "moving a due job to its queue",
        "claim and acknowledge, up to 100 at once",
    ),
}
"""The whole ways of a job, as steps of the table."""


def measure_steps(stage: Stage) -> dict[str, Samples]:
    """For each step the µs of server CPU a job, of each side in each round."""
    sizes, idle = stage.sizes, idle_share(stage.client)

    def meter(count: int) -> Meter:
        return Meter(stage.client, count, idle)

    def scripted(python: str, ruby: str, count: int) -> Samples:
        def run(of: Callable[[Stage, str, int], float], script: str) -> float:
            with meter(count) as spent:
                of(stage, script, count)
            return spent.us

        contenders = {OURS: lambda: run(run_python, python)}
        if stage.with_ruby:
            contenders[RUBY] = lambda: run(run_ruby_script, ruby)
        return stage.rounds(contenders)

    def worked(
        work: Work,
        key: str,
        is_over: Callable[[], bool],
        target: str = "queue:default",
        starts: Mapping[str, Start] = sides(stage),
    ) -> Samples:
        count = int(key.rpartition(":")[2])

        def run(start: Start) -> float:
            with running(start, stage, work) as worker:
                stage.place(key)
                with meter(count) as spent:
                    stage.appear(target)
                    worker.wait_for(lambda: True)  # fails with its output if it has ended
                    wait_until(
                        is_over, TIMEOUT_S, lambda: f"the end of {key}: {look()}", interval_s=LOOK_S
                    )
                return spent.us

        return stage.rounds(
            {name: lambda start=start: run(start) for name, start in starts.items()}
        )

    def look() -> dict[str, int]:
        found = stage.client
        lengths = {key: found.llen(key) for key in ("queue:default", "queue:moved")}
        return lengths | {key: found.zcard(key) for key in ("schedule", "retry")}

    def is_drained() -> bool:
        return not stage.client.exists("queue:default") and stage.left() == (0, 0)

    noop = stage.prepare("noop", sizes.noop, {"class": "NoOpJob"})
    few = stage.prepare("noop", sizes.failing, {"class": "NoOpJob"})
    sleeps = stage.prepare("sleep", sizes.io_async, {"class": "SleepJob"})
    steps: dict[str, Samples] = {
        "single push": scripted(PYTHON_LOOP, RUBY_LOOP, sizes.pushes),
        "bulk push of 1,000s": scripted(PYTHON_BULK, RUBY_BULK, sizes.bulk),
        "claim and acknowledge, up to 100 at once": worked(NOOP, noop, is_drained),
    }
    one_by_one = dict(worked(ONE_BY_ONE, few, is_drained, starts={OURS: ours}))
    if stage.with_ruby:  # it takes them one by one at all times
        one_by_one[RUBY] = steps["claim and acknowledge, up to 100 at once"][RUBY]
    steps["claim and acknowledge, one by one"] = one_by_one
    steps["claim and acknowledge, 500 async jobs"] = worked(
        SLEEPS_ASYNC, sleeps, is_drained, starts={OURS: ours}
    )
    steps["claim, fail and write to `retry`"] = worked(
        FAILS, few, lambda: stage.client.zcard("retry") == sizes.failing and is_drained()
    )  # fmt: skip
    steps["single push into `schedule`"] = scripted(*LATER_LOOPS, sizes.pushes)
    steps["moving a due job to its queue"] = worked(
        replace(NOOP, ruby=RUBY_POLLS_OFTEN + NOOP.ruby, queues=("other",)),
        prepare_due(stage, sizes.due),
        # Sidekiq takes a job out before it pushes it: an error in between would cost the job.
        lambda: not stage.client.zcard("schedule"),
        "schedule",
    )
    return steps


def _whole(name: str, parts: Sequence[Samples]) -> Outcome:
    """Jobs that a second of server CPU carries all the way, each round for itself."""
    samples = {
        side: [
            1_000_000 / sum(costs) for costs in zip(*(part[side] for part in parts), strict=True)
        ]
        for side in (OURS, RUBY)
        if all(side in part for part in parts)
    }
    beside = samples.get(RUBY)
    return Outcome(
        what=f"extrapolated: jobs a server CPU second, {name}",
        unit="jobs",
        samples=samples,
        target=f"≥ {TARGET} x Sidekiq",
        met=at_least(median(samples[OURS]) / median(beside), TARGET) if beside else None,
        note="one million µs by the sum of its steps above",
    )


def _ping_us(stage: Stage) -> float:
    """Server CPU of a PING that waits for its reply: what no command can be cheaper than."""
    count = stage.sizes.pushes
    idle = idle_share(stage.client)
    with Meter(stage.client, count, idle) as spent:
        for _ in range(count):
            stage.client.ping()
    return spent.us


def servers(stage: Stage) -> list[Outcome]:
    """What each server at hand does when it is the limit, with and without I/O threads."""
    outcomes: list[Outcome] = []
    for binary in dict.fromkeys([*bench_binaries(), "redis-server", ""]):
        if binary and not shutil.which(binary):
            continue
        for threads in (1, 2):
            try:
                with _one_of_them(stage, binary, threads) as place:
                    outcomes += _limit(place, server_title(place.client), threads)
            except (subprocess.SubprocessError, AssertionError) as error:  # the others go on
                name = f"{binary or 'the embedded server'}, {threads} I/O threads"
                note = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                outcomes.append(Outcome(what=name, unit="-", failed=True, note=note))
    return outcomes


LOADS = {
    "single pushes": ("push",),
    "pushes of 1,000s": ("bulk",),
    "claims of 100": ("claim", "100"),
    "claims of 1": ("claim", "1"),
    BRPOP: ("brpop",),
}
"""What `load.py` is called with besides connections and count; pushes of either side are the same commands."""
LIMITED_WAYS = {
    "pushed in bulk, claimed by 100": ("pushes of 1,000s", "claims of 100"),
    "pushed singly, claimed by 100": ("single pushes", "claims of 100"),
    "pushed singly, claimed one by one": ("single pushes", "claims of 1"),
}


def _limit(stage: Stage, title: str, threads: int) -> list[Outcome]:
    rates: dict[str, list[float]] = {name: [] for name in LOADS}
    costs: dict[str, list[float]] = {name: [] for name in LOADS}
    busy: dict[str, list[float]] = {name: [] for name in LOADS}
    idle, count = idle_share(stage.client), stage.sizes.carried // CONNECTIONS * CONNECTIONS
    for number in range(min(stage.sizes.rounds, LIMIT_ROUNDS)):
        for name, (mode, *more) in LOADS.items():
            stage.progress.step(f"{title}, {threads} I/O threads, round {number + 1}, {name}")
            stage.client.flushdb()
            pushes = mode in {"push", "bulk"}
            if not pushes:
                stage.put(stage.prepare("noop", count, {"class": "NoOpJob"}))
            with Meter(stage.client, count, idle) as spent:
                took = load(stage, threads, mode, str(CONNECTIONS), str(count), *more)
            assert stage.client.llen("queue:default") == (count if pushes else 0)
            rates[name].append(count / took)
            costs[name].append(spent.us)
            busy[name].append(spent.us * count / 1_000_000 / took)
    settings = (
        "1 thread, a core of its own" if threads == 1 else f"{threads} I/O threads, all cores"
    )
    lines = [
        Outcome(
            what=f"{title}, {settings}: {name}",
            unit="jobs/s",
            samples={OURS: rates[name]}
            | ({BRPOP: rates[BRPOP]} if name.startswith("claims") else {}),
            note=f"{CONNECTIONS} connections; {median(costs[name]):.2f} µs of server CPU a job; the server was busy "
            f"for {median(busy[name]):.0%} of a core",
        )
        for name in LOADS
        if name != BRPOP
    ]
    for name, (push, claim) in LIMITED_WAYS.items():
        lines.append(_whole_way(f"{title}, {settings}: {name}", costs, push, claim))
    return lines


def _whole_way(name: str, costs: Samples, push: str, claim: str) -> Outcome:
    """Jobs that a second of CPU of a busy server carries, push and claim, each round for itself."""
    samples = {
        side: [
            1_000_000 / (one + other) for one, other in zip(costs[push], costs[taken], strict=True)
        ]
        for side, taken in ((OURS, claim), (BRPOP, BRPOP))
    }
    return Outcome(
        what=f"extrapolated: jobs a server CPU second, {name}",
        unit="jobs",
        samples=samples,
        target=f"≥ {TARGET} x Sidekiq",
        met=at_least(median(samples[OURS]) / median(samples[BRPOP]), TARGET),
        note=f"from the CPU of each part; BRPOP: {median(costs[BRPOP]):.2f} µs, at most once",
    )


def load(stage: Stage, threads: int, *words: str) -> float:
    """Run the load on the worker's core, or on all if the server has all; the seconds that it took."""
    script = str(Path(__file__).with_name("load.py"))
    with on_core(WORKER_CORE if threads == 1 else None):
        done = subprocess.run(
            [sys.executable, script, stage.server.url, *words],
            env={**os.environ}, capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    return float(done.stdout)


@contextlib.contextmanager
def _one_of_them(stage: Stage, binary: str, threads: int) -> Iterator[Stage]:
    """The same stage with another server; with I/O threads it has all cores."""
    settings = {"io_threads": str(threads)} if threads > 1 else {}
    with contextlib.ExitStack() as stack:
        with on_core(SERVER_CORE if threads == 1 else None):
            server = stack.enter_context(start_server(binary, **settings))
        client = stack.enter_context(redis.Redis.from_url(server.url, **PATIENT))
        store_url = server.url.removesuffix("/0") + f"/{STORE}"
        store = stack.enter_context(redis.Redis.from_url(store_url, **PATIENT))
        yield replace(stage, server=server, client=client, store=store)


MEASURES: Sequence = (server, servers)
