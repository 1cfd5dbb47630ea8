"""Measures of the client: pushes in a loop, in bulk and of unique jobs; checks of a limiter."""

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.outcome import OURS, RUBY, Outcome, at_least, median, ratio
from benchmarks.peers import PEERS, PUSHING, push_by_peer
from benchmarks.sides import QUIET_RUBY
from benchmarks.stage import WORKER_CORE, Stage, on_core
from support.ruby import run_ruby

PYTHON_LOOP = """
import sys, time
from kiqbridge import job

@job(name="NoOpJob")
def no_op(number):
    pass

count = int(sys.argv[1])
no_op.perform_async(0)
began = time.perf_counter()
for number in range(count):
    no_op.perform_async(number)
print(count / (time.perf_counter() - began))
"""
RUBY_LOOP = """
class NoOpJob
  include Sidekiq::Worker
  def perform(number); end
end
NoOpJob.perform_async(0)
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
GIVEN.times { |number| NoOpJob.perform_async(number) }
answer(GIVEN / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began))
"""
PYTHON_BULK = """
import sys, time
from kiqbridge import job

@job(name="NoOpJob")
def no_op(number):
    pass

count = int(sys.argv[1])
no_op.perform_async(0)
began = time.perf_counter()
for first in range(0, count, 1000):
    no_op.perform_bulk([[number] for number in range(first, first + 1000)])
print(count / (time.perf_counter() - began))
"""
TASKS = 100
PYTHON_TASKS = f"""
import asyncio, sys, time
from kiqbridge import job

@job(name="NoOpJob")
async def no_op(number):
    pass

async def push(count):
    for number in range(count):
        await no_op.aperform_async(number)

async def push_all(count):
    await push(1)
    began = time.perf_counter()
    await asyncio.gather(*(push(count // {TASKS}) for _ in range({TASKS})))
    print(count / (time.perf_counter() - began))

asyncio.run(push_all(int(sys.argv[1])))
"""
UNIQUE_LOOP = """
import sys, time
from kiqbridge import job
from kiqbridge.flow import Unique

@job(name="UniqueNoOp", unique=Unique())
def no_op(number):
    pass

count = int(sys.argv[1])
no_op.perform_async(-1)
began = time.perf_counter()
for number in range(count):
    no_op.perform_async(number)
print(count / (time.perf_counter() - began))
"""
LIMITER_LOOP = """
import sys, time
from kiqbridge.flow import limiter

count = int(sys.argv[1])
limit = limiter.window("bench", 10 * count, per="hour")
with limit.within_limit():
    pass
began = time.perf_counter()
for number in range(count):
    with limit.within_limit():
        pass
print(count / (time.perf_counter() - began))
"""
RUBY_BULK = """
class NoOpJob
  include Sidekiq::Worker
  def perform(number); end
end
NoOpJob.perform_async(0)
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
0.step(GIVEN - 1, 1000) do |first|
  Sidekiq::Client.push_bulk('class' => NoOpJob, 'args' => (first...first + 1000).map { |number| [number] })
end
answer(GIVEN / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began))
"""


def push(stage: Stage) -> list[Outcome]:
    """One `perform_async` after another, from one thread."""
    count = stage.sizes.pushes
    samples = _clients(stage, PYTHON_LOOP, RUBY_LOOP, count)
    return [
        Outcome(
            what="single perform_async in a loop",
            unit="jobs/s",
            samples=samples,
            target="≥ 1.6 x Sidekiq",
            met=at_least(ratio(samples), 1.6),
            note=f"{count:,} pushes, one process, one thread",
            decides=True,
        )
    ]


def bulk(stage: Stage) -> list[Outcome]:
    """A thousand jobs a call."""
    count = stage.sizes.bulk
    samples = _clients(stage, PYTHON_BULK, RUBY_BULK, count)
    return [
        Outcome(
            what="bulk push of 1,000s",
            unit="jobs/s",
            samples=samples,
            target="≥ 2.5 x Sidekiq",
            met=at_least(ratio(samples), 2.5),
            note=f"{count:,} jobs",
            decides=True,
        )
    ]


def tasks(stage: Stage) -> list[Outcome]:
    """A hundred tasks of an event loop, each of which awaits one push after another."""
    count = 10 * stage.sizes.pushes
    contenders = {OURS: lambda: run_python(stage, PYTHON_TASKS, count)}
    notes = [f"{count:,} pushes of one process"]
    for name in sorted({"taskiq", *PUSHING} & {*stage.peers}):
        peer = {**PEERS, **PUSHING}[name]
        try:
            peer.install()
            contenders[name] = partial(push_by_peer, stage, peer, TASKS, count)
        except (AssertionError, OSError) as error:
            notes.append(f"{name} is not measured: {error}")
    samples = stage.rounds(contenders)
    return [
        Outcome(
            what=f"awaited pushes of {TASKS} tasks at once",
            unit="jobs/s",
            samples=samples,
            target="≥ 60,000/s",
            met=at_least(median(samples[OURS]), 60_000),
            note="; ".join(notes),
        )
    ]


def unique(stage: Stage) -> list[Outcome]:
    """A push that takes a lock, beside a plain one."""
    samples = _beside_plain(stage, UNIQUE_LOOP)
    return [
        Outcome(
            what="push of a unique job in a loop",
            unit="jobs/s",
            samples=samples,
            target="≥ 0.77 x a plain push: ≤ 1.3 x its time",
            met=at_least(ratio(samples, PLAIN), 1 / 1.3),
            note=f"{stage.sizes.pushes:,} pushes, each with a lock of its own; on loopback, where the script's time counts most",
        )
    ]


def limit(stage: Stage) -> list[Outcome]:
    """A check of a limiter, beside a plain push: one round trip each."""
    return [
        Outcome(
            what="check of a limiter (window)",
            unit="checks/s",
            samples=_beside_plain(stage, LIMITER_LOOP),
            note=f"{stage.sizes.pushes:,} checks, one process, one thread",
        )
    ]


def _beside_plain(stage: Stage, script: str) -> dict[str, list[float]]:
    """What a script reaches in a second, and what plain pushes do, each on an empty server."""
    count = stage.sizes.pushes
    return stage.rounds(
        {
            OURS: lambda: _emptied(stage, script, count),
            PLAIN: lambda: _emptied(stage, PYTHON_LOOP, count),
        }
    )


def _emptied(stage: Stage, script: str, count: int) -> float:
    stage.server.flush()
    return run_python(stage, script, count)


def _clients(stage: Stage, python: str, ruby: str, count: int) -> dict[str, list[float]]:
    contenders: dict[str, Callable[[], float]] = {OURS: lambda: run_python(stage, python, count)}
    for name in stage.rubies:
        contenders[name] = partial(run_ruby_script, stage, ruby, count, name)
    return stage.rounds(contenders)


def run_python(stage: Stage, script: str, count: int) -> float:
    """What a script of ours prints, run on the worker's core."""
    with on_core(WORKER_CORE):
        done = subprocess.run(
            [str(stage.python), "-c", script, str(count)],
            env={**os.environ, "REDIS_URL": stage.server.url},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return float(done.stdout)


def run_ruby_script(stage: Stage, script: str, count: int, name: str = RUBY) -> float:
    """What a script of Ruby's answers, run on the worker's core."""
    with on_core(WORKER_CORE):
        return float(
            run_ruby(
                QUIET_RUBY + script,
                stage.server.url,
                timeout_s=120,
                given=count,
                ruby=stage.rubies[name],
            )
        )


PLAIN = "plain push"

MEASURES: Sequence = (push, bulk, tasks, unique, limit)
