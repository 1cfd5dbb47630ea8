"""Measures of what workers cost while they have nothing to do, and what they keep."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import redis
from benchmarks.drain import time_drain
from benchmarks.outcome import OURS, Outcome, at_most, median
from benchmarks.sides import NOOP, Start, all_sides, by_side, running, sides
from benchmarks.stage import (
    Stage,
    cpu_seconds,
    pinned_server,
    resident_mb,
    shared_mb,
)

IDLE_S = 2
THREE_QUEUES = ("critical", "default", "low")


def idle(stage: Stage) -> list[Outcome]:
    """One idle worker with three queues: commands at Redis and CPU of the worker.

    Both sides are idle at the same time, each at a server of its own.
    """
    seconds = stage.sizes.idle_s
    work = replace(NOOP, queues=THREE_QUEUES)
    commands: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        idlers = {}
        for name, start in sides(stage).items():
            place = stack.enter_context(another_server(stage))
            idlers[name] = (place, stack.enter_context(running(start, place, work)))
        stage.progress.step("settling")
        time.sleep(min(seconds, 2))  # what the start sends is not what is measured
        before = {
            name: (place.commands(), cpu_seconds(worker.pid))
            for name, (place, worker) in idlers.items()
        }
        stage.progress.step(f"idle for {seconds:.0f} s")
        began = time.perf_counter()
        time.sleep(seconds)  # doing nothing for so long is what is measured
        elapsed = time.perf_counter() - began
        for name, (place, worker) in idlers.items():
            commands[name] = [(place.commands() - before[name][0]) / elapsed]
            cpu[name] = [(cpu_seconds(worker.pid) - before[name][1]) / elapsed * 60]
    return [
        Outcome(
            what="idle worker, 3 queues: commands at Redis",
            unit="commands/s",
            samples=commands,
            target="≤ 3",
            met=at_most(median(commands[OURS]), 3),
            note=f"over {seconds:.0f} s, those inside scripts counted",
        ),
        Outcome(
            what="idle worker, 3 queues: CPU",
            unit="s a minute",
            samples=cpu,
            target="≤ 0.1 s",
            met=at_most(median(cpu[OURS]), 0.1),
            note=f"measured over {seconds:.0f} s",
        ),
    ]


def memory(stage: Stage) -> list[Outcome]:
    """Resident memory of a worker with ten threads: idle, and when it has done many jobs."""
    count = stage.sizes.memory
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    idle: dict[str, list[float]] = {}
    shared: dict[str, float] = {}

    def keep(name: str, start: Start) -> float:
        with running(start, stage, NOOP) as worker:
            time.sleep(IDLE_S)  # what comes soon after the start belongs to an idle worker
            idle[name] = [resident_mb(worker.pid)]
            shared[name] = shared_mb(worker.pid)
            time_drain(stage, worker, key)
            return resident_mb(worker.pid)

    samples = by_side(stage, keep, rounds=1, of=all_sides)
    stage.store.delete(key)
    pages = ", ".join(f"{name} {value:.1f} MB" for name, value in shared.items())
    return [
        Outcome(
            what="resident memory of an idle worker",
            unit="MB",
            samples=idle,
            target="≤ 34 MB",
            met=at_most(median(idle[OURS]), 34),
            note=f"10 threads; of it pages of files, which the processes of a machine share: {pages}",
            decides=True,
        ),
        Outcome(
            what=f"resident memory after {count:,} jobs",
            unit="MB",
            samples=samples,
            target="≤ 38 MB",
            met=at_most(median(samples[OURS]), 38),
            note="10 threads",
            decides=True,
        ),
    ]


@contextlib.contextmanager
def another_server(stage: Stage) -> Iterator[Stage]:
    """The same stage with a server of its own, for what must not share its counters."""
    with pinned_server() as server, redis.Redis.from_url(server.url) as client:
        yield replace(stage, server=server, client=client)


MEASURES: Sequence = (idle, memory)
