"""How fast a full queue is worked off, from its appearance until its last job is done."""

from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from benchmarks.sides import Start, Work, ours, running
from benchmarks.stage import WORKER_CORE, Stage, cpu_seconds, voluntary_switches
from support.processes import ChildProcess
from support.waiting import wait_until

TIMEOUT_S = 300
LOOK_S = 0.005
LOOK_AHEAD = 100
"""The most jobs that one claim takes, by default."""


@dataclass(slots=True)
class Drained:
    """Sums over the rounds of one contender.

    Attributes:
        cpu_us: CPU of the worker, microseconds per job, for each round.
        switches: its voluntary context switches per job, for each round.
        claims: how many numbered claims ours made; one takes at most 100 jobs.
        most_in_flight: the most jobs that were seen in our in-flight lists, all together.
    """

    cpu_us: list[float] = field(default_factory=list)
    switches: list[float] = field(default_factory=list)
    claims: int = 0
    most_in_flight: int = 0

    @property
    def note(self) -> str:
        return f"in-flight lists in use: {self.claims:,} claims, up to {self.most_in_flight} jobs seen in them"


def drain(
    stage: Stage,
    start: Start,
    work: Work,
    key: str,
    count: int,
    *,
    seen: Drained | None = None,
    queue: str = "default",
    core: int | None = WORKER_CORE,
) -> float:
    """Jobs per second of a worker that is started for it, on one core or (None) on all.

    Raises:
        AssertionError: ours did not claim its jobs into in-flight lists.
    """
    with running(start, stage, work, core) as worker:
        began_cpu, began_switches = cpu_seconds(worker.pid), voluntary_switches(worker.pid)
        took = time_drain(stage, worker, key, queue=queue, seen=seen)
        if seen is not None:
            seen.cpu_us.append((cpu_seconds(worker.pid) - began_cpu) / count * 1_000_000)
            seen.switches.append((voluntary_switches(worker.pid) - began_switches) / count)
            seen.claims += stage.claims()
        if start is ours:
            assert stage.claims() * LOOK_AHEAD >= count, "jobs were taken without numbered claims"
    return count / took


def time_drain(
    stage: Stage,
    worker: ChildProcess,
    key: str,
    *,
    queue: str = "default",
    seen: Drained | None = None,
    until: int = 0,
) -> float:
    """Seconds until a prepared queue is worked off, or `until` are left of it.

    Ours is over when the in-flight lists are empty too: all is acknowledged. Of Sidekiq's the last
    jobs, one a thread, are not waited for: it keeps no account of them.
    """
    most = 0

    def is_over() -> bool:
        nonlocal most
        queued, in_flight = stage.left(queue)
        most = max(most, in_flight)
        return queued <= until and (until or not in_flight)

    began = stage.put(key, f"queue:{queue}")
    worker.wait_for(lambda: True)  # fails with its output if it has ended
    wait_until(is_over, TIMEOUT_S, lambda: f"the end of {key}: {stage.left(queue)} left", interval_s=LOOK_S)  # fmt: skip
    took = perf_counter() - began
    if seen is not None:
        seen.most_in_flight = max(seen.most_in_flight, most)
    return took


def drain_sides(
    stage: Stage,
    starts: dict[str, Start],
    work: Work,
    key: str,
    count: int,
    *,
    rounds: int | None = None,
    core: int | None = WORKER_CORE,
) -> tuple[dict[str, list[float]], dict[str, Drained]]:
    """All contenders in turn on the same queue."""
    seen = {name: Drained() for name in starts}
    samples = stage.rounds(
        {
            name: partial(drain, stage, start, work, key, count, seen=seen[name], core=core)
            for name, start in starts.items()
        },
        rounds,
    )
    return samples, seen
