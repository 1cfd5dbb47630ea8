"""Measures of jobs per second: a full queue appears, and a worker works it off."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from mmap import mmap
from time import perf_counter

from benchmarks.drain import LOOK_S, Drained, drain, drain_sides, time_drain
from benchmarks.outcome import OURS, RUBY, Outcome, at_least, at_most, median, ratio
from benchmarks.sides import (
    NOOP,
    Start,
    Work,
    all_sides,
    by_side,
    joined,
    ours,
    rubys,
    running,
    sides,
    without_ruby,
)
from benchmarks.stage import CHUNK, STORE, Stage, delayed, on_core, pin, round_trip_ms
from support.waiting import wait_until

TWO_PROCESSES = f"2 x {RUBY}"
ONE_PROCESS = f"1 x {OURS}"
ADDED_S = 0.001
IO_S = 0.010
QUEUES = 50
MOVE_DUE = """
local due = redis.call('ZRANGE', 'retry', 0, -1)
for first = 1, #due, 1000 do
  redis.call('LPUSH', 'bench:second', unpack(due, first, math.min(first + 999, #due)))
end
redis.call('DEL', 'retry')
"""

FIVE_MIDDLEWARES = replace(
    NOOP,
    python=NOOP.python
    + """
from kiqbridge import server

def middleware(number):
    def pass_on(job, payload, queue, call_next):
        return call_next()
    return pass_on

for number in range(5):
    server.middleware.add(middleware(number))
""",
    ruby=NOOP.ruby
    + """
Sidekiq.configure_server do |config|
  5.times do
    passing = Class.new do
      def call(job, payload, queue)
        yield
      end
    end
    config.server_middleware { |chain| chain.add(passing) }
  end
end
""",
)
NOTED = Work(
    python="""
import mmap
from kiqbridge import job

with open('{path}', "r+b") as file:
    notes = mmap.mmap(file.fileno(), 0)

@job(name="NotedJob")
def noted(number):
    notes[number] = 1
""",
    ruby="""
NOTES = IO::Buffer.map(File.open('{path}', 'r+'))
class NotedJob
  include Sidekiq::Worker
  def perform(number)
    NOTES.set_value(:U8, number, 1)
  end
end
""",
)
FAILS_ONCE = Work(
    python="""
from kiqbridge import job

failed = set()

@job(name="FailsOnceJob")
def fails_once(number):
    if number not in failed:
        failed.add(number)
        raise RuntimeError("the first time")
""",
    ruby="""
FAILED = Set.new
MUTEX = Mutex.new
class FailsOnceJob
  include Sidekiq::Worker
  def perform(number)
    raise 'the first time' if MUTEX.synchronize { FAILED.add?(number) }
  end
end
""",
    level="error",
)
SLEEPS = Work(
    python=f"""
import time
from kiqbridge import job

@job(name="SleepJob")
def sleep(number):
    time.sleep({IO_S})  # stands for waiting for a network
""",
    ruby=f"""
class SleepJob
  include Sidekiq::Worker
  def perform(number)
    sleep {IO_S}
  end
end
""",
    threads=50,
)
SLEEPS_ASYNC = Work(
    python=f"""
import asyncio
from kiqbridge import job

@job(name="SleepJob")
async def sleep(number):
    await asyncio.sleep({IO_S})
""",
    flags=("--async-concurrency", "500"),
)


def noted(stage: Stage) -> list[Outcome]:
    """Jobs that each note their end in memory shared with the benchmark, until the last has."""
    count = stage.sizes.noop
    key = _numbered(stage, count, "NotedJob")
    path = stage.folder / "noted"
    work = replace(NOTED, python=NOTED.python.format(path=path), ruby=NOTED.ruby.format(path=path))

    def until_noted(_name: str, start: Start) -> float:
        path.write_bytes(bytes(count))
        with (
            running(start, stage, work) as worker,
            path.open("r+b") as file,
            mmap(file.fileno(), 0) as notes,
        ):
            began, open_from = stage.put(key), 0
            while (open_from := notes.find(b"\0", open_from)) >= 0:
                worker.wait_for(lambda: True)  # fails with its output if it has ended
                time.sleep(LOOK_S)  # the step of what is measured
            return count / (perf_counter() - began)

    samples = by_side(stage, until_noted, of=all_sides)
    return [
        Outcome(
            what="jobs that note their end, 10 threads",
            unit="jobs/s",
            samples=samples,
            target="≥ 8 x Sidekiq",
            met=at_least(ratio(samples), 8),
            note=f"{count:,} jobs, each sets a byte of its own in shared memory; 1 process, WARN, reliable fetch",
            decides=True,
        )
    ]


def noop(stage: Stage) -> list[Outcome]:
    """No-op jobs, one process, ten threads, WARN, everything on; and the CPU that a job costs."""
    count = stage.sizes.noop
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    samples, seen = drain_sides(stage, all_sides(stage), NOOP, key, count)
    cpu = {name: each.cpu_us for name, each in seen.items()}
    return [
        Outcome(
            what="no-op jobs",
            unit="jobs/s",
            samples=samples,
            target="≥ 5 x Sidekiq (stretch 8)",
            met=at_least(ratio(samples), 5),
            note=joined(
                f"{count:,} jobs, 1 process, 10 threads, WARN, reliable fetch; {seen[OURS].note}",
                without_ruby(stage),
            ),
        ),
        Outcome(
            what="CPU of the worker for a no-op job",
            unit="µs",
            samples=cpu,
            target="≤ 10 µs",
            met=at_most(median(cpu[OURS]), 10),
        ),
    ]


def middleware(stage: Stage) -> list[Outcome]:
    """The same with five middlewares of the user's and 200 bytes of arguments."""
    count = stage.sizes.noop
    key = stage.prepare("long", count, {"class": "NoOpJob", "args": ["x" * 196]})
    samples, seen = drain_sides(stage, sides(stage), FIVE_MIDDLEWARES, key, count)
    return [
        Outcome(
            what="no-op jobs, 5 middlewares, 200-byte args",
            unit="jobs/s",
            samples=samples,
            target="≥ 4 x Sidekiq",
            met=at_least(ratio(samples), 4),
            note=f"{count:,} jobs; {seen[OURS].note}",
        )
    ]


def info(stage: Stage) -> list[Outcome]:
    """The same with a line at the start and one at the end of each job, written to a file."""
    count = stage.sizes.log_lines
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    lines: dict[str, int] = {}

    def logged(name: str, start: Start) -> float:
        work = replace(NOOP, level="info")
        with running(start, stage, work) as worker:
            rate = count / time_drain(stage, worker, key)
            # The lines of the last jobs may be under way still.
            wait_until(
                lambda: worker.output.count("done") >= count,
                what=lambda: f"{count} lines: {worker.output.count('done')}",
            )
            lines[name] = worker.output.count("\n")
        return rate

    samples = by_side(stage, logged)
    told = ", ".join(f"{name} {number:,} lines" for name, number in lines.items())
    return [
        Outcome(
            what="no-op jobs with INFO start/done lines to a file",
            unit="jobs/s",
            samples=samples,
            target="≥ 3 x Sidekiq (stretch 5)",
            met=at_least(ratio(samples), 3),
            note=f"{count:,} jobs, each side in its own format when not on a terminal: {told}",
        )
    ]


def processes(stage: Stage) -> list[Outcome]:
    """Two processes on two cores that Redis shares, beside Sidekiq's two and beside our one."""
    count = stage.sizes.noop
    key = stage.prepare("noop", count, {"class": "NoOpJob"})

    def two_of_ours() -> float:
        with on_core(None):
            worker = ours(stage, replace(NOOP, flags=("--processes", "2")))
        with worker:
            stage.wait_listed(worker, 2)
            members = [member.decode() for member in stage.client.smembers("processes")]
            for number, member in enumerate(sorted(members)):
                pin(int(member.split(":")[-2]), [number])
            return count / time_drain(stage, worker, key)

    def two_of_ruby() -> float:
        with contextlib.ExitStack() as stack:
            for number in range(2):
                with on_core(number):
                    worker = stack.enter_context(rubys(stage, NOOP))
            stage.wait_listed(worker, 2)
            return count / time_drain(stage, worker, key)

    contenders = {OURS: two_of_ours}
    if stage.with_ruby:
        contenders[TWO_PROCESSES] = two_of_ruby
    contenders[ONE_PROCESS] = lambda: drain(stage, ours, NOOP, key, count)
    pin(stage.server.pid, [0, 1])
    try:
        samples = stage.rounds(contenders)
    finally:
        pin(stage.server.pid, [0])
    alone = ratio(samples, ONE_PROCESS)
    beside_ruby = ratio(samples, TWO_PROCESSES)
    met = at_least(alone, 1.2)
    if beside_ruby is not None:
        met = bool(met) and beside_ruby >= 3
    return [
        Outcome(
            what="no-op jobs, 2 processes on 2 cores",
            unit="jobs/s",
            samples=samples,
            target="≥ 3 x Sidekiq's 2, ≥ 1.2 x our 1",
            met=met,
            note=f"{count:,} jobs, Redis on the same two cores; {alone:.2f} x our one process",
        )
    ]


def distant(stage: Stage) -> list[Outcome]:
    """A round trip to Redis that takes a millisecond longer."""
    count = stage.sizes.distant
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    straight = round_trip_ms(stage.server.url)
    with delayed(stage.server, ADDED_S) as url:
        far = round_trip_ms(url)
        samples, seen = drain_sides(stage, sides(stage), replace(NOOP, url=url), key, count)
    return [
        Outcome(
            what="no-op jobs, Redis 1 ms away",
            unit="jobs/s",
            samples=samples,
            target="≥ 10 x Sidekiq",
            met=at_least(ratio(samples), 10),
            note=(
                f"{count:,} jobs, 10 threads, the same proxy for both: PING takes {far:.2f} ms "
                f"through it and {straight:.3f} ms without, so the proxy itself costs "
                f"{far - straight - ADDED_S * 1000:.2f} ms; {seen[OURS].note}"
            ),
        )
    ]


def retry(stage: Stage) -> list[Outcome]:
    """Every job fails once, is moved due by the benchmark, and succeeds: both parts are timed."""
    count = stage.sizes.failing
    key = _numbered(stage, count, "FailsOnceJob")

    def fail_and_succeed(_name: str, start: Start) -> float:
        with running(start, stage, FAILS_ONCE) as worker:
            took = time_drain(stage, worker, key)
            began = perf_counter()
            wait_until(
                lambda: stage.client.zcard("retry") == count,
                what=lambda: f"{count} retries: {stage.client.zcard('retry')}",
            )
            took += perf_counter() - began
            # The poller of either side is measured elsewhere; and how long a retry waits is policy.
            stage.client.eval(MOVE_DUE, 0)  # not into the queue, which the worker serves
            stage.client.move("bench:second", STORE)
            took += time_drain(stage, worker, "bench:second")
            stage.store.delete("bench:second")
            assert stage.client.zcard("retry") == 0, "a job failed twice"
            return count / took

    samples = by_side(stage, fail_and_succeed)
    return [
        Outcome(
            what="every job fails once and is retried",
            unit="jobs/s",
            samples=samples,
            target="≥ 4 x Sidekiq",
            met=at_least(ratio(samples), 4),
            note=(
                f"{count:,} jobs, level ERROR; timed are the failures until all are in `retry`, and "
                "the second run, after the benchmark has moved all of `retry` to the queue"
            ),
        )
    ]


def io(stage: Stage) -> list[Outcome]:
    """Jobs that wait 10 ms: 50 threads beside Sidekiq's 50, and 500 at once on the event loop."""
    return [_io_threads(stage), _io_async(stage)]


def _io_threads(stage: Stage) -> Outcome:
    count = stage.sizes.io_threads
    key = stage.prepare("sleep", count, {"class": "SleepJob"})
    ideal = SLEEPS.threads / IO_S
    samples, seen = drain_sides(stage, sides(stage), SLEEPS, key, count)
    return Outcome(
        what="jobs that sleep 10 ms, 50 threads",
        unit="jobs/s",
        samples=samples,
        target=f"≥ 95% of the ideal {ideal:,.0f}/s",
        met=at_least(median(samples[OURS]) / ideal, 0.95),
        note=f"{count:,} jobs; {median(samples[OURS]) / ideal:.1%} of the ideal; {seen[OURS].note}",
    )


def _io_async(stage: Stage) -> Outcome:
    count = stage.sizes.io_async
    key = stage.prepare("sleep", count, {"class": "SleepJob"})
    samples, seen = drain_sides(stage, {OURS: ours}, SLEEPS_ASYNC, key, count)
    return Outcome(
        what="async jobs that sleep 10 ms, 500 at once",
        unit="jobs/s",
        samples=samples,
        target="≥ 20,000/s (stretch 30,000)",
        met=at_least(median(samples[OURS]), 20_000),
        note=f"{count:,} jobs, 1 process, {_event_loop()}; Ruby has no such jobs; {seen[OURS].note}",
    )


def growth(stage: Stage) -> list[Outcome]:
    """The first jobs of a queue with a million jobs behind them, and of one with few."""
    sizes = stage.sizes
    counted = sizes.few_queued // 2

    def first_of(queued: int) -> float:
        key = stage.prepare("noop", queued, {"class": "NoOpJob"})
        with running(ours, stage, NOOP) as worker:
            return counted / time_drain(stage, worker, key, until=queued - counted)

    label = f"{sizes.few_queued:,} queued"
    samples = stage.rounds(
        {
            OURS: lambda: first_of(sizes.many_queued),
            label: lambda: first_of(sizes.few_queued),
        }
    )
    stage.store.delete(f"prepared:noop:{sizes.many_queued}")
    stage.client.flushdb()
    return [
        Outcome(
            what=f"no-op jobs from {sizes.many_queued:,} queued",
            unit="jobs/s",
            samples=samples,
            target="flat: ≥ 0.9 x",
            met=at_least(ratio(samples, label), 0.9),
            note=f"the first {counted:,} jobs are timed, of either length",
        )
    ]


def order(stage: Stage) -> list[Outcome]:
    """Strict order over fifty queues of which only the last is full, beside one queue."""
    count = stage.sizes.noop
    last = f"q{QUEUES - 1}"
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    fifty = replace(NOOP, queues=tuple(f"q{number}" for number in range(QUEUES)))
    seen = Drained()
    samples = stage.rounds(
        {
            OURS: lambda: drain(stage, ours, fifty, key, count, queue=last, seen=seen),
            "1 queue": lambda: drain(stage, ours, NOOP, key, count),
        }
    )
    return [
        Outcome(
            what=f"no-op jobs, strict order over {QUEUES} queues, the last one full",
            unit="jobs/s",
            samples=samples,
            target="within 20% of 1 queue",
            met=at_least(ratio(samples, "1 queue"), 0.8),
            note=f"{count:,} jobs; {seen.note}",
        )
    ]


def _numbered(stage: Stage, count: int, job: str) -> str:
    """Jobs that each have a number of their own."""
    assert count <= CHUNK, "the bytes of a prepared queue repeat beyond"
    return stage.prepare(job, count, {"class": job})


def _event_loop() -> str:
    try:
        import uvloop
    except ImportError:
        return "asyncio's own event loop (uvloop is not installed)"
    return f"uvloop {uvloop.__version__}"


MEASURES: Sequence = (noted, noop, middleware, info, processes, distant, retry, io, growth, order)
