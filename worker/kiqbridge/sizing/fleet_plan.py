"""From jobs to a fleet: threads, processes, tasks, servers and what they cost in a month.

1. What a job costs a worker and a server: sums of measured parts (`Costs`).
2. Workers: as many threads as jobs run at once, as many processes as Python needs cores or threads need room.
3. Servers: as many as processor, memory and connections ask for, whichever asks for most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kiqbridge.sizing.workload import GIB, MICRO, SHORT_S, Costs, Limits, Prices, Workload

MB: Final = 1_000_000
RETRY_WAIT_S: Final = 30.0
"""How long a job that failed once waits in `retry`, about."""
ERROR_BYTES: Final = 300
"""What a failure adds to a job's text: class, message, times."""
_WAITS_S: Final = 0.001
_LONG_BYTES: Final = 10_000
_WORTH_IT: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The workers of a plan.

    Attributes:
        slots: jobs that may run at once, in all: threads, or coroutines.
        processes: how many, in all.
        slots_each: `-c`, or `--async-concurrency`, of each process.
        cores: of Python and the engine that are busy in the peak.
        tasks: how many.
        task_processes: `--processes` of each task.
        task_gib: memory of each task, GiB.
        connections: that each process has at most, when all its threads ask at once.
    """

    slots: int
    processes: int
    slots_each: int
    cores: float
    tasks: int
    task_processes: int
    task_gib: float
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers of a plan; several are the primaries of a cluster, or servers of fleets.

    Attributes:
        count: how many.
        job_us: server CPU of a job on its whole way, µs.
        core: which part of its core each one uses in the peak.
        limit_jobs_per_s: what each one carries when its core is full.
        data_gib: what jobs take in each one, at most, GiB.
        memory_gib: memory that each one needs, with room, GiB.
        connections: at each one.
        mb_per_s: bytes of jobs, in and out of each one in the peak, MB a second.
        needed_for: how many each reason asks for: `cpu`, `memory`, `connections`.
    """

    count: int
    job_us: float
    core: float
    limit_jobs_per_s: float
    data_gib: float
    memory_gib: float
    connections: int
    mb_per_s: float
    needed_for: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fleet for a workload.

    Attributes:
        workers_month: dollars a month, at the given prices.
        servers_month: the same for servers with their replicas.
        advice: what would make it smaller, or what is wrong with it, in sentences.
    """

    workers: Workers
    servers: Servers
    workers_month: float
    servers_month: float
    advice: Sequence[str]


def plan(
    workload: Workload,
    *,
    costs: Costs | None = None,
    limits: Limits | None = None,
    prices: Prices | None = None,
) -> Plan:
    """A fleet for a workload, with as many servers as it needs."""
    costs, limits, prices = costs or Costs(), limits or Limits(), prices or Prices()
    workers = plan_workers(workload, costs, limits)
    servers = plan_servers(workload, workers, costs, limits)
    task_hour = limits.task_vcpu * prices.vcpu_hour + workers.task_gib * prices.gib_hour
    server_hour = servers.memory_gib * prices.server_gib_hour * (1 + prices.replicas)
    return Plan(
        workers=workers,
        servers=servers,
        workers_month=workers.tasks * task_hour * prices.hours,
        servers_month=servers.count * server_hour * prices.hours,
        advice=_advice(workload, workers, servers, costs, limits),
    )


def engine_us(workload: Workload, costs: Costs) -> float:
    """Worker CPU of a job beside its own, µs."""
    if workload.is_async:
        return costs.engine_async_us
    if workload.seconds > SHORT_S:
        return costs.engine_long_us
    return costs.engine_wait_us if _waits(workload) else costs.engine_short_us


def server_us(workload: Workload, costs: Costs) -> float:
    """Server CPU of a job on its whole way, of the average job, µs."""
    push = workload.bulk * costs.push_bulk_us + (1 - workload.bulk) * costs.push_us
    if workload.is_async:
        claim = costs.claim_async_us
    else:
        claim = costs.claim_short_us if workload.seconds <= SHORT_S else costs.claim_long_us
    retry = workload.retried * (costs.fail_us + costs.promote_us)
    return push + claim + retry + workload.scheduled * costs.promote_us


def process_jobs_per_s(workload: Workload, slots: int, costs: Costs) -> float:
    """What one process with so many threads, or coroutines, performs at most."""
    return min(1 / _cpu_s(workload, costs), slots / _slot_s(workload, costs))


def plan_workers(workload: Workload, costs: Costs, limits: Limits) -> Workers:
    """Threads, processes and tasks for the peak."""
    runs = workload.jobs_per_s * workload.peak * (1 + workload.retried)
    cores = runs * _cpu_s(workload, costs)
    slots = _up(runs * _slot_s(workload, costs) / limits.thread_share)
    room = limits.async_jobs if workload.is_async else limits.threads
    together = max(int(limits.task_vcpu), 1)
    processes = max(_up(cores / limits.worker_share), _up(slots / room))
    tasks = _up(processes / together)
    # A task of less than a core, or one that is full: all of them have the same number of processes.
    processes = tasks * together
    slots_each = _up(slots / processes)
    memory = together * (costs.process_mb + limits.app_mb) * MB / GIB
    threads = 1 if workload.is_async else slots_each
    return Workers(
        slots=slots_each * processes,
        processes=processes,
        slots_each=slots_each,
        cores=cores,
        tasks=tasks,
        task_processes=together,
        task_gib=max(math.ceil(memory * 2) / 2, 0.5),
        connections=threads + costs.process_connections,
    )


def plan_servers(workload: Workload, workers: Workers, costs: Costs, limits: Limits) -> Servers:
    """Servers for the peak and the backlog."""
    peak, job_us = workload.jobs_per_s * workload.peak, server_us(workload, costs)
    core = peak * job_us * MICRO
    connections = workers.processes * workers.connections
    data = data_bytes(workload, workers.slots, costs)
    needed = {
        "cpu": _up(core / limits.server_share),
        "memory": _up(data / (limits.server_gib * GIB * limits.memory_share)),
        "connections": _up(connections / max(limits.max_clients - limits.other_connections, 1)),
    }
    count = max(needed.values())
    held = connections / count + limits.other_connections
    each = (data / count + held * costs.connection_bytes) / GIB
    text = workload.bytes + costs.envelope_bytes
    return Servers(
        count=count,
        job_us=job_us,
        core=core / count,
        limit_jobs_per_s=1 / (job_us * MICRO),
        data_gib=data / count / GIB,
        memory_gib=max(math.ceil(each / limits.memory_share * 2) / 2, 1.0),
        connections=math.ceil(held),
        mb_per_s=2 * peak * text / count / MB,
        needed_for=needed,
    )


def data_bytes(workload: Workload, slots: int, costs: Costs) -> float:
    """What jobs take in all servers when no worker has run for `backlog_s`."""
    text = workload.bytes + costs.envelope_bytes
    waiting = workload.jobs_per_s * workload.backlog_s + slots
    retrying = workload.jobs_per_s * workload.retried * RETRY_WAIT_S
    later = workload.jobs_per_s * workload.scheduled * workload.scheduled_s
    return (
        waiting * (text + costs.list_bytes)
        + retrying * (text + ERROR_BYTES + costs.set_bytes)
        + later * (text + costs.set_bytes)
    )


def _cpu_s(workload: Workload, costs: Costs) -> float:
    return engine_us(workload, costs) * MICRO + workload.seconds * workload.cpu_share


def _slot_s(workload: Workload, costs: Costs) -> float:
    """For how long a job keeps its thread or coroutine."""
    between = costs.wait_us if _waits(workload) and not workload.is_async else 0.0
    return workload.seconds + (engine_us(workload, costs) + between) * MICRO


def _waits(workload: Workload) -> bool:
    return workload.cpu_share < 1 and workload.seconds >= _WAITS_S


def _up(value: float) -> int:
    """Rounded up, at least 1; what is above a whole number by an error of rounding stays there."""
    return max(math.ceil(value - 1e-9), 1)


def _advice(
    workload: Workload, workers: Workers, servers: Servers, costs: Costs, limits: Limits
) -> list[str]:
    found = []
    most = max(servers.needed_for, key=lambda reason: servers.needed_for[reason])
    if servers.needed_for[most] > 1:
        found.append(f"It takes {servers.needed_for[most]} servers for {_REASONS[most]}.")
    pushed = (1 - workload.bulk) * costs.push_us
    if pushed > servers.job_us / 3 and servers.core > limits.server_share / 4:
        saved = servers.job_us - pushed + (1 - workload.bulk) * costs.push_bulk_us
        found.append(
            f"Single pushes take {pushed:.1f} of {servers.job_us:.1f} µs of a job at the server; pushed in bulk it "
            f"would be {saved:.1f} µs."
        )
    if not workload.is_async:
        other = plan_workers(replace(workload, is_async=True), costs, limits)
        if other.processes <= workers.processes * _WORTH_IT:
            found.append(
                f"As `async def` jobs they need {other.processes:,} processes instead of {workers.processes:,}, if they "
                "wait by `await`."
            )
    if workload.bytes > _LONG_BYTES:
        found.append(
            "Jobs are long: store what they carry elsewhere, and pass its key; memory and network of the servers "
            "follow from it."
        )
    return found


_REASONS: Final = {
    "cpu": "the processor: a server performs commands on one core",
    "memory": "memory: jobs that wait for the time that was given",
    "connections": "connections: each thread of a worker has one",
}
