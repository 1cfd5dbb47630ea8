"""`kiqbridge scale`: from jobs a second, duration and bytes to threads, processes, tasks, Redis and cost."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from kiqbridge.commands.argument_types import amount, count, duration, factor, share, whole
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.output import columns_of, write_json, write_line, write_table
from kiqbridge.sizing.fleet_plan import Plan, plan, process_jobs_per_s
from kiqbridge.sizing.workload import Costs, Limits, Prices, Workload

_OPTIONS: Final[dict[type, dict[str, tuple[Callable[[str], float], str]]]] = {
    Workload: {
        "bytes": (count, "length of a job's arguments as JSON"),
        "peak": (factor, "how many times as many jobs there are in the busiest minutes"),
        "cpu_share": (share, "which part of its time a job keeps Python busy, 0 to 1"),
        "bulk": (share, "which part of them is pushed in bulk"),
        "retried": (share, "which part of them fails once"),
        "scheduled": (share, "which part of them is pushed for later"),
        "scheduled_s": (duration, "how much later"),
        "backlog_s": (duration, "for how long Redis has room while no worker runs"),
    },
    Limits: {
        "task_vcpu": (amount, "processors of a task"),
        "app_mb": (amount, "memory of a process beside the worker's own, MB"),
        "server_gib": (amount, "memory of the largest server that is wanted, GiB"),
        "max_clients": (count, "connections that a server takes"),
    },
    Prices: {
        "replicas": (whole, "replicas of each server"),
        "vcpu_hour": (amount, "dollars for a processor of a task and an hour, an example"),
        "gib_hour": (amount, "dollars for a GiB of a task's memory and an hour, an example"),
        "server_gib_hour": (amount, "dollars for a GiB of a server and an hour, an example"),
    },
}
_UNITS: Final[dict[object, str]] = {
    amount: "N",
    count: "N",
    whole: "N",
    factor: "X",
    share: "P",
    duration: "TIME",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The jobs, limits and prices."""
    parser.add_argument(
        "--jobs-per-s", type=amount, required=True, metavar="N", help="jobs pushed in a second"
    )
    parser.add_argument(
        "--seconds", type=amount, required=True, metavar="S", help="how long a job runs"
    )
    parser.add_argument(
        "--async", dest="is_async", action="store_true", help="the jobs are coroutines"
    )
    for of, options in _OPTIONS.items():
        defaults = {field.name: field.default for field in fields(of)}
        for name, (kind, words) in options.items():
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=kind,
                default=defaults[name],
                metavar=_UNITS[kind],
                help=f"{words} (default {defaults[name]:g})",
            )
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    add_example(
        parser,
        "kiqbridge scale --jobs-per-s 5000 --seconds 0.2 --bytes 500",
        "kiqbridge scale --jobs-per-s 40000 --seconds 0.05 --async --bulk 0.5 --json",
    )


def run(options: argparse.Namespace) -> int:
    """Compute a fleet and show it."""
    workload, limits, prices = (_taken(kind, options) for kind in (Workload, Limits, Prices))
    found = plan(workload, limits=limits, prices=prices)
    if options.json:
        write_json(
            {
                "workload": asdict(workload),
                **asdict(found),
                "costs": asdict(Costs()),
                "limits": asdict(limits),
                "prices": asdict(prices),
            }
        )
        return 0
    write_table(columns_of("what", "needed", "why"), _rows(found, workload, limits, prices))
    for line in found.advice:
        write_line(line)
    write_line("Prices are examples, and nothing is scaled down at night. docs/scaling.md says what is assumed.")  # fmt: skip
    return 0


def _rows(found: Plan, workload: Workload, limits: Limits, prices: Prices) -> list[Sequence[str]]:
    workers, servers = found.workers, found.servers
    kind = "coroutines" if workload.is_async else "threads"
    flag = "--async-concurrency" if workload.is_async else "-c"
    one = process_jobs_per_s(workload, workers.slots_each, Costs())
    many = servers.count > 1
    each = ", each" if many else ""
    return [
        ("jobs/s", f"{workload.jobs_per_s * workload.peak:,.0f}", f"in the peak: {workload.peak:g} x {workload.jobs_per_s:,g}"),
        (kind, f"{workers.slots:,}", f"jobs that run at once, {limits.thread_share:.0%} busy"),
        ("processes", f"{workers.processes:,}", f"{flag} {workers.slots_each}; {workers.cores:.1f} cores are busy; one carries up to {one:,.0f} jobs/s"),
        ("tasks", f"{workers.tasks:,}", f"{limits.task_vcpu:g} vCPU and {workers.task_gib:g} GiB, --processes {workers.task_processes}"),
        ("servers", f"{servers.count:,}", ", ".join(f"{name} {number}" for name, number in servers.needed_for.items())),
        (f"server CPU{each}", f"{servers.core:.0%}", f"of one core; {servers.job_us:.1f} µs a job; full at {servers.limit_jobs_per_s:,.0f} jobs/s"),
        (f"server memory{each}", f"{servers.memory_gib:g} GiB", f"jobs of {workload.backlog_s / 60:,.0f} minutes take {servers.data_gib:.2f} GiB; filled to {limits.memory_share:.0%}"),
        (f"server network{each}", f"{servers.mb_per_s:,.1f} MB/s", "jobs, in and out"),
        (f"connections{each}", f"{servers.connections:,}", f"{workers.connections} a process, {limits.other_connections} others; maxclients {limits.max_clients:,}"),
        ("workers a month", f"${found.workers_month:,.0f}", f"${prices.vcpu_hour:g} a vCPU hour, ${prices.gib_hour:g} a GiB hour"),
        ("servers a month", f"${found.servers_month:,.0f}", f"${prices.server_gib_hour:g} a GiB hour, {prices.replicas} replica{'' if prices.replicas == 1 else 's'} each"),
    ]  # fmt: skip


def _taken(of: type, options: argparse.Namespace) -> Any:
    """A group of numbers from the options that bear the names of its fields."""
    given = {field.name: getattr(options, field.name, None) for field in fields(of)}
    return of(**{name: value for name, value in given.items() if value is not None})
