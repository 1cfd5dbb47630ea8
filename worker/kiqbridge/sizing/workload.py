"""What the model of a fleet is given: the jobs, what they cost at measured rates, limits and prices."""

from dataclasses import dataclass, fields
from typing import Final

MICRO: Final = 1e-6
SHORT_S: Final = 0.02
"""Jobs up to this long are claimed up to 100 at once, longer ones one by one, in seconds."""
GIB: Final = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs as they are on average.

    Attributes:
        jobs_per_s: how many are pushed in a second.
        seconds: how long one runs.
        bytes: length of its arguments as JSON.
        peak: how many times as many there are in the busiest minutes.
        cpu_share: which part of its time a job keeps Python busy; the rest it waits.
        is_async: whether jobs are coroutines on the event loop.
        bulk: which part of them is pushed in bulk.
        retried: which part of them fails once and is retried.
        scheduled: which part of them is pushed for later.
        scheduled_s: how much later, in seconds.
        backlog_s: for how many seconds of pushes Redis has room while no worker runs.

    Raises:
        ValueError: a number is below 0, a part above 1, or there are no jobs.
    """

    jobs_per_s: float
    seconds: float
    bytes: int = 500
    peak: float = 1.5
    cpu_share: float = 0.05
    is_async: bool = False
    bulk: float = 0.0
    retried: float = 0.01
    scheduled: float = 0.0
    scheduled_s: float = 3600.0
    backlog_s: float = 3600.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value >= 0:
                raise ValueError(f"{field.name} is {value}; write a number that is not below 0")
        for name in ("cpu_share", "bulk", "retried", "scheduled"):
            if getattr(self, name) > 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; it is a part of all jobs or of their time, so at most 1"
                )
        if not self.jobs_per_s or self.peak < 1:
            raise ValueError(
                f"jobs_per_s is {self.jobs_per_s}, peak {self.peak}; there must be jobs, and a peak of at least 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was measured (docs/benchmarks.md, docs/scaling.md), on one core of an AMD EPYC with Python 3.11.

    Attributes:
        push_us: server CPU of a single push, µs.
        push_bulk_us: server CPU of a job of a bulk push, µs.
        claim_short_us: server CPU to claim and acknowledge a job of a claim of many, µs.
        claim_long_us: server CPU to claim and acknowledge one job, µs.
        claim_async_us: server CPU to claim and acknowledge a job on the event loop, µs.
        fail_us: server CPU to claim a job and to write it to `retry`, µs.
        promote_us: server CPU to move a due job to its queue, µs.
        engine_short_us: worker CPU of a short job that does not wait beside its own, µs.
        engine_wait_us: worker CPU of a short job that waits beside its own: its thread is left and taken up, µs.
        engine_long_us: worker CPU of a job that is claimed alone beside its own, µs.
        engine_async_us: worker CPU of a job on the event loop beside its own, µs.
        wait_us: time that a thread has no job between two long ones, µs.
        envelope_bytes: what a job's JSON has beside its arguments.
        list_bytes: what a job takes in a queue beside its text.
        set_bytes: what a job takes in `schedule`, `retry` or `dead` beside its text.
        connection_bytes: what a connection takes in the server.
        process_connections: connections that a busy process has beside one for each thread.
        process_mb: resident memory of a worker beside its application, MB.
    """

    push_us: float = 9.5
    push_bulk_us: float = 0.5
    claim_short_us: float = 1.2
    claim_long_us: float = 16.0
    claim_async_us: float = 6.5
    fail_us: float = 9.0
    promote_us: float = 3.0
    engine_short_us: float = 6.5
    engine_wait_us: float = 70.0
    engine_long_us: float = 130.0
    engine_async_us: float = 40.0
    wait_us: float = 500.0
    envelope_bytes: int = 170
    list_bytes: int = 8
    set_bytes: int = 110
    connection_bytes: int = 25_000
    process_connections: int = 6
    process_mb: float = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How full things are planned, and how large they are.

    Attributes:
        server_share: of one core of the server, that is used in the peak.
        worker_share: of one core of a worker process, that is used in the peak.
        thread_share: of the threads, that are busy in the peak.
        threads: of a process at most.
        async_jobs: of a process at once at most.
        memory_share: of the server's memory, that is filled at most.
        server_gib: memory of the largest server that is wanted.
        max_clients: connections of a server at most.
        task_vcpu: processors of a task; as many processes run in it.
        app_mb: memory of a process beside the worker's own: the application, MB.
        other_connections: those of clients, such as web processes and functions, in all.
    """

    server_share: float = 0.6
    worker_share: float = 0.7
    thread_share: float = 0.8
    threads: int = 50
    async_jobs: int = 500
    memory_share: float = 0.6
    server_gib: float = 50.0
    max_clients: int = 10_000
    task_vcpu: float = 1.0
    app_mb: float = 150.0
    other_connections: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Examples in dollars, from no price list: replace them by those of your region.

    Attributes:
        vcpu_hour: a processor of a task for an hour.
        gib_hour: a GiB of a task's memory for an hour.
        server_gib_hour: a GiB of a server's memory for an hour, its processors included.
        replicas: servers that copy each one.
        hours: of a month.
    """

    vcpu_hour: float = 0.04
    gib_hour: float = 0.0045
    server_gib_hour: float = 0.02
    replicas: int = 1
    hours: float = 730.0
