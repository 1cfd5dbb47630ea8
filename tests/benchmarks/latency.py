"""Measures of time: from push to begin, from due to moved, from start to the first job."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.outcome import OURS, Outcome, at_least, at_most, median, percentile, ratio, ratios
from benchmarks.sides import (
    NOOP,
    Start,
    Work,
    all_sides,
    by_side,
    joined,
    ours,
    running,
    without_ruby,
)
from benchmarks.stage import WORKER_CORE, Stage, on_core, read_numbers
from support.waiting import wait_until

from kiqbridge import Client

GAP_S = 0.02
SPREAD_S = (1.0, 3.0)
TIMEOUT_S = 120

LATE = Work(
    python="""
import os, time
from kiqbridge import job

@job(name="LateJob")
def late(since, path):
    line = b"%.6f\\n" % (time.time() - since)
    file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, line)
    os.close(file)
""",
    ruby="""
class LateJob
  include Sidekiq::Worker
  def perform(since, path)
    late = Time.now.to_f - since
    File.open(path, 'a') { |file| file.syswrite(format("%.6f\\n", late)) }
  end
end
""",
)
# Polls every second instead of every five at first: waiting for the poll is not what is timed.
RUBY_POLLS_OFTEN = """
Sidekiq.configure_server { |config| config.options[:poll_interval_average] = 1 }
"""


def pickup(stage: Stage) -> list[Outcome]:
    """From just before the push until the job begins, in an idle worker with three queues."""
    count = stage.sizes.pick_ups
    work = replace(LATE, queues=("critical", "default", "low"))
    slowest: dict[str, list[float]] = {}

    def waited(name: str, start: Start) -> float:
        evidence = _fresh(stage)
        client = Client(stage.server.url)
        with running(start, stage, work) as worker:
            _push_late(client, evidence)  # the first one finds nothing warm
            read_numbers(evidence, 1)
            for _ in range(count):
                # Apart, so that each finds idle threads, and not in step with the worker's looks.
                gap_s = GAP_S * random.uniform(0.5, 1.5)
                time.sleep(gap_s)  # the gap is part of what is measured
                _push_late(client, evidence)
                worker.wait_for(lambda: True)
            late = [late * 1000 for late in read_numbers(evidence, count + 1)[1:]]
        client.close()
        slowest.setdefault(name, []).append(percentile(late, 99))
        return median(late)

    samples = by_side(stage, waited, of=all_sides)
    note = f"{count} pushes about {GAP_S * 1000:.0f} ms apart in each round, 3 queues"
    return [
        Outcome(
            what="pick-up of a job by an idle worker, p50",
            unit="ms",
            samples=samples,
            target="≤ 0.8 x Sidekiq",
            met=at_most(ratio(samples), 0.8),
            note=joined(note, without_ruby(stage)),
            decides=True,
        ),
        Outcome(
            what="pick-up of a job by an idle worker, p99",
            unit="ms",
            samples=slowest,
            target="≤ 1.0 x Sidekiq",
            met=at_most(ratio(slowest), 1.0),
            decides=True,
        ),
    ]


def promote(stage: Stage) -> list[Outcome]:
    """Scheduled jobs that are all due at once, until the last is in its queue."""
    count = stage.sizes.due
    key = prepare_due(stage, count)
    work = replace(NOOP, ruby=RUBY_POLLS_OFTEN + NOOP.ruby, queues=("other",))

    def move(_name: str, start: Start) -> float:
        untouched_at = 0.0

        def nothing_left() -> bool:
            nonlocal untouched_at
            looked_at = time.perf_counter()
            left = stage.client.zcard("schedule")
            if left == count:
                untouched_at = looked_at
            return not left

        with running(start, stage, work):
            untouched_at = stage.put(key, "schedule")
            wait_until(nothing_left, TIMEOUT_S, "the end of `schedule`", interval_s=0.001)
            # Sidekiq takes a job out before it pushes it: the last one may be in its hands.
            wait_until(lambda: stage.client.llen("queue:moved") == count, what="all in the queue")
            return count / (time.perf_counter() - untouched_at)

    samples = by_side(stage, move)
    return [
        Outcome(
            what="moving due jobs from `schedule` to their queue",
            unit="jobs/s",
            samples=samples,
            target="≥ 20 x Sidekiq's poller",
            met=at_least(ratio(samples), 20),
            note=f"{count:,} jobs due at once, timed from the last look before the first move to the last move",
        )
    ]


def lateness(stage: Stage) -> list[Outcome]:
    """How much later than its time a scheduled job begins."""
    count = stage.sizes.scheduled
    tails: list[float] = []

    def late() -> float:
        evidence = _fresh(stage)
        client = Client(stage.server.url)
        with running(ours, stage, LATE):
            began = time.time()
            for _ in range(count):
                at = began + random.uniform(*SPREAD_S)
                client.push({"class": "LateJob", "args": [at, str(evidence)], "at": at})
            numbers = [late * 1000 for late in read_numbers(evidence, count)]
        client.close()
        tails.append(percentile(numbers, 99))
        return median(numbers)

    samples = stage.rounds({OURS: late})
    return [
        Outcome(
            what="lateness of a job scheduled for t, p50",
            unit="ms",
            samples=samples,
            target="≤ 20 ms",
            met=at_most(median(samples[OURS]), 20),
            note=f"{count} jobs at random times within {SPREAD_S[1] - SPREAD_S[0]:.0f} s in each round; Sidekiq looks every 5 to 15 s",
        ),
        Outcome(
            what="lateness of a job scheduled for t, p99",
            unit="ms",
            samples={OURS: tails},
            target="≤ 100 ms",
            met=at_most(median(tails), 100),
        ),
    ]


def start(stage: Stage) -> list[Outcome]:
    """From the start of the process until the job that waits for it has begun."""

    def begin(_name: str, start: Start) -> float:
        evidence = _fresh(stage)
        client = Client(stage.server.url)
        with on_core(WORKER_CORE):
            _push_late(client, evidence)
            worker = start(stage, LATE)
        with worker:
            [took] = read_numbers(evidence, 1)
        client.close()
        return took * 1000

    samples = by_side(stage, begin, of=all_sides)
    return [
        Outcome(
            what="worker start to first job",
            unit="ms",
            samples=samples,
            target="≤ 0.9 x each Sidekiq",
            met=at_most(max(ratios(samples), default=None), 0.9),
            note="from the start of the process, on a core of its own",
            decides=True,
        )
    ]


def _fresh(stage: Stage) -> Path:
    evidence = stage.folder / "late"
    evidence.unlink(missing_ok=True)
    return evidence


def _push_late(client: Client, evidence: Path) -> None:
    client.push({"class": "LateJob", "args": [time.time(), str(evidence)]})


def prepare_due(stage: Stage, count: int) -> str:
    """A `schedule` with so many jobs, each with its own bytes, due a minute ago."""
    key = f"prepared:due:{count}"
    if not stage.store.exists(key):
        client = Client(stage.server.url.removesuffix("/0") + "/1")
        past = time.time() - 60
        args = [[number] for number in range(count)]
        client.push_bulk({"class": "NoOpJob", "queue": "moved", "args": args, "at": time.time() + 3600})  # fmt: skip
        client.close()
        # A push for a time that has passed goes straight to its queue, so they are dated back here.
        stage.store.zunionstore(key, {"schedule": 1e-9})
        stage.store.delete("schedule")
        assert stage.store.zrange(key, -1, -1, withscores=True)[0][1] < past
    return key


MEASURES: Sequence = (pickup, promote, lateness, start)
