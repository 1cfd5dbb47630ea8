"""Measures of what workers cost while they have nothing to do, and what they keep."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import redis
from benchmarks.drain import time_drain
from benchmarks.outcome import OURS, Outcome, at_most, median
from benchmarks.sides import NOOP, Start, by_side, running, sides
from benchmarks.stage import (
    Stage,
    cpu_seconds,
    pinned_server,
    resident_mb,
)

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
    """Resident memory of a worker with ten threads that has done many jobs."""
    count = stage.sizes.memory
    key = stage.prepare("noop", count, {"class": "NoOpJob"})
    before: dict[str, float] = {}

    def keep(name: str, start: Start) -> float:
        with running(start, stage, NOOP) as worker:
            before[name] = resident_mb(worker.pid)
            time_drain(stage, worker, key)
            return resident_mb(worker.pid)

    samples = by_side(stage, keep, rounds=1)
    stage.store.delete(key)
    told = ", ".join(f"{name} {value:.0f} MB" for name, value in before.items())
    return [
        Outcome(
            what=f"resident memory after {count:,} jobs",
            unit="MB",
            samples=samples,
            target="≤ 45 MB",
            met=at_most(median(samples[OURS]), 45),
            note=f"10 threads; before the first job: {told}",
        )
    ]


@contextlib.contextmanager
def another_server(stage: Stage) -> Iterator[Stage]:
    """The same stage with a server of its own, for what must not share its counters."""
    with pinned_server() as server, redis.Redis.from_url(server.url) as client:
        yield replace(stage, server=server, client=client)


MEASURES: Sequence = (idle, memory)
