"""Measures of what a median hides: the slowest of many rounds, and how long short jobs wait beside long ones."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.drain import drain_sides
from benchmarks.outcome import OURS, Outcome, at_least, at_most, median, percentile, ratio
from benchmarks.sides import Start, Work, by_side, joined, running, sides, without_ruby
from benchmarks.stage import Stage, read_numbers

from kiqbridge import Client

LONG_S = 0.020
EVERY_S = 0.010
A_TIME = 10
"""Jobs that are pushed together: one long, all others short."""

LOCKS = Work(
    python="""
import threading
from kiqbridge import job

lock, counted = threading.Lock(), 0

@job(name="LockJob")
def count(number):
    global counted
    with lock:  # as each logger, metrics client and connection pool does
        counted += 1
""",
    ruby="""
LOCK = Mutex.new
class LockJob
  include Sidekiq::Worker
  def perform(number)
    LOCK.synchronize { $counted = $counted.to_i + 1 }
  end
end
""",
)
FILES = Work(
    python="""
import os, threading
from kiqbridge import job

lock, file = threading.Lock(), os.open(os.devnull, os.O_WRONLY)

@job(name="FileJob")
def write(number):
    with lock:  # the write lets another thread run, which waits for the lock
        os.write(file, b"1")
""",
    ruby="""
LOCK, TARGET = Mutex.new, File.open(File::NULL, "w")
class FileJob
  include Sidekiq::Worker
  def perform(number)
    LOCK.synchronize { TARGET.syswrite("1") }
  end
end
""",
)
LOGS = Work(
    python="""
import logging
from kiqbridge import job

logger = logging.getLogger("shop")

@job(name="LogJob")
def log(number):
    logger.warning("order %s is paid", number)
""",
    ruby="""
class LogJob
  include Sidekiq::Worker
  def perform(number)
    Sidekiq.logger.warn("order #{number} is paid")
  end
end
""",
)
MIXED = Work(
    python=f"""
import os, time
from kiqbridge import job

@job(name="MixedJob")
def mixed(since, is_long, path):
    if is_long:
        time.sleep({LONG_S})  # what a long job does
        return
    line = b"%.6f\\n" % (time.time() - since)
    file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, line)
    os.close(file)
""",
    ruby=f"""
class MixedJob
  include Sidekiq::Worker
  def perform(since, is_long, path)
    return sleep({LONG_S}) if is_long
    late = Time.now.to_f - since
    File.open(path, 'a') {{ |file| file.syswrite(format("%.6f\\n", late)) }}
  end
end
""",
)


def lock(stage: Stage) -> list[Outcome]:
    """No-op jobs that take one lock."""
    return [_mood(stage, "no-op jobs that take a lock", LOCKS, "LockJob", stage.sizes.noop)]


def file(stage: Stage) -> list[Outcome]:
    """Jobs that write to a file under one lock."""
    what = "jobs that write to a file under a lock"
    return [_mood(stage, what, FILES, "FileJob", stage.sizes.noop)]


def log(stage: Stage) -> list[Outcome]:
    """Jobs that log a line, by `logging` and by Sidekiq's logger."""
    return [_mood(stage, "jobs that log a line", LOGS, "LogJob", stage.sizes.log_lines)]


def mixed(stage: Stage) -> list[Outcome]:
    """A steady thousand jobs a second, every tenth of which sleeps: how long the short ones wait."""
    count = stage.sizes.mixed

    def waited(_name: str, start: Start) -> float:
        evidence = Path(stage.folder / "waited")
        evidence.unlink(missing_ok=True)
        client = Client(stage.server.url)
        with running(start, stage, MIXED) as worker:
            began = time.monotonic()
            for number in range(count // A_TIME):
                time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
                kinds = random.sample([True] + [False] * (A_TIME - 1), A_TIME)
                jobs = [[time.time(), is_long, str(evidence)] for is_long in kinds]
                client.push_bulk({"class": "MixedJob", "args": jobs})
                worker.wait_for(lambda: True)
            waits = read_numbers(evidence, count // A_TIME * (A_TIME - 1))
        client.close()
        return percentile(waits, 99) * 1000

    samples = by_side(stage, waited, stage.sizes.mood_rounds)
    return [
        Outcome(
            what=f"90 % no-op jobs and 10 % of {LONG_S * 1000:.0f} ms: p99 wait of the short ones",
            unit="ms",
            samples=samples,
            target="≤ 1.0 x Sidekiq",
            met=at_most(ratio(samples), 1.0),
            note=joined(
                f"{count:,} jobs, {A_TIME / EVERY_S:,.0f} a second, 10 threads", without_ruby(stage)
            ),
        )
    ]


def _mood(stage: Stage, what: str, work: Work, job: str, count: int) -> Outcome:
    key = stage.prepare(job, count, {"class": job})
    rounds = stage.sizes.mood_rounds
    samples, seen = drain_sides(stage, sides(stage), work, key, count, rounds=rounds, core=None)
    slowest = min(samples[OURS]) / median(samples[OURS])
    switches = seen[OURS].switches
    return Outcome(
        what=what,
        unit="jobs/s",
        samples=samples,
        target="slowest round ≥ 0.8 x the median",
        met=at_least(slowest, 0.8),
        note=joined(
            f"{count:,} jobs, {rounds} rounds on all cores, the slowest {slowest:.2f} x the median; voluntary context switches a"
            f" job: {min(switches):.2f} to {max(switches):.2f}",
            without_ruby(stage),
        ),
    )


MEASURES: Sequence = (lock, file, log, mixed)
