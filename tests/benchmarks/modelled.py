"""What `kiqbridge scale` computes beside what is measured here: one process, one server, one job."""

import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.drain import time_drain
from benchmarks.outcome import OURS, Outcome, median
from benchmarks.sides import NOOP, Work, ours, running
from benchmarks.stage import Stage, cpu_seconds
from benchmarks.throughput import SLEEPS, SLEEPS_ASYNC
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.sizing.fleet_plan import engine_us, process_jobs_per_s
from kiqbridge.sizing.workload import Costs, Workload

MODEL = "model"
WITHIN = 0.3
LONG_S = 0.05
LONG = replace(SLEEPS, python=SLEEPS.python.replace("time.sleep(0.01)", f"time.sleep({LONG_S})"))
ARGUMENT = 496
"""Signs of an argument that is 500 bytes with its quotes and brackets."""


def model(stage: Stage) -> list[Outcome]:
    """Each figure that the model computes a fleet from, as measured and as assumed."""
    sizes = stage.sizes
    cases = (
        ("no-op jobs, 10 threads", NOOP, "noop", "NoOpJob", sizes.noop, 10, Workload(jobs_per_s=1, seconds=0)),
        ("jobs that sleep 10 ms, 50 threads", SLEEPS, "sleep", "SleepJob", sizes.io_threads, 50, Workload(jobs_per_s=1, seconds=0.01, cpu_share=0)),
        ("jobs that sleep 50 ms, 50 threads", LONG, "sleep", "SleepJob", sizes.io_threads // 2, 50, Workload(jobs_per_s=1, seconds=LONG_S, cpu_share=0)),
        ("async jobs that sleep 10 ms, 500 at once", SLEEPS_ASYNC, "sleep", "SleepJob", sizes.io_async, 500, Workload(jobs_per_s=1, seconds=0.01, cpu_share=0, is_async=True)),
    )  # fmt: skip
    found: list[Outcome] = []
    for name, work, key, job_class, count, slots, workload in cases:
        prepared = stage.prepare(key, count, {"class": job_class})
        cpu: list[float] = []

        def rate(
            work: Work = work, key: str = prepared, count: int = count, cpu: list[float] = cpu
        ) -> float:
            with running(ours, stage, work) as worker:
                before = cpu_seconds(worker.pid)
                took = time_drain(stage, worker, key)
                cpu.append((cpu_seconds(worker.pid) - before) / count * 1_000_000)
            return count / took

        rates = stage.rounds({OURS: rate})[OURS]
        found += [
            _beside(f"{name}: a process", "jobs/s", rates, process_jobs_per_s(workload, slots, Costs())),
            _beside(f"{name}: CPU of the worker", "µs a job", cpu, engine_us(workload, Costs())),
        ]  # fmt: skip
    return [*found, *_server_figures(stage)]


def _server_figures(stage: Stage) -> list[Outcome]:
    """Bytes of a job that waits, in a queue and in `schedule`, and connections of a worker."""
    costs, count = Costs(), stage.sizes.due
    text = 4 + ARGUMENT + costs.envelope_bytes
    client = Client(stage.server.url)
    args = [["x" * ARGUMENT] for _ in range(count)]
    samples: dict[str, list[float]] = {}
    for name, more in (("a queue", {}), ("`schedule`", {"at": time.time() + 3600})):
        stage.client.flushdb()
        before = stage.client.info("memory")["used_memory"]
        client.push_bulk({"class": "NoOpJob", "args": args, **more})
        used = stage.client.info("memory")["used_memory"] - before
        samples[name] = [used / count]
    client.close()
    stage.client.flushdb()
    lists = stage.client.client_list
    before = len(lists())
    with running(ours, stage, NOOP):
        stage.put(stage.prepare("noop", stage.sizes.few_queued, {"class": "NoOpJob"}))
        wait_until(lambda: stage.left() == (0, 0), 60, "an empty queue")
        connections = len(lists()) - before
    return [
        _beside("a job with 500 bytes of arguments in a queue", "bytes", samples["a queue"], text + costs.list_bytes),
        _beside("the same in `schedule`", "bytes", samples["`schedule`"], text + costs.set_bytes),
        _beside("connections of a worker with 10 threads", "connections", [connections], 10 + costs.process_connections),
    ]  # fmt: skip


def _beside(what: str, unit: str, measured: Sequence[float], computed: float) -> Outcome:
    deviation = computed / median(measured) - 1
    return Outcome(
        what=what,
        unit=unit,
        samples={OURS: measured, MODEL: [computed]},
        target=f"within {WITHIN:.0%}",
        met=abs(deviation) <= WITHIN,
        note=f"the model is off by {deviation:+.0%}",
    )


MEASURES: Sequence = (model,)
