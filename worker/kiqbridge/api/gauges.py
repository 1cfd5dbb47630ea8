"""The gauges of the fleet: what each counts, and how it follows from the facts.

Prometheus, StatsD and OpenTelemetry, the page Now, `kiqbridge stats --watch` and the monitor function read them here. `Stats` has Sidekiq's
own counts, which it reads with fewer commands.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kiqbridge.api.facts import Facts


class Gauge(NamedTuple):
    """A number of the fleet at one moment.

    Attributes:
        name: as Prometheus has it, without `kiqbridge_`.
        help: what it means, with its unit.
        read: its value.
        cloudwatch: its name there, if the monitor function measures it (docs/reference/schedules.md).
    """

    name: str
    help: str
    read: Callable[[Facts], int]
    cloudwatch: str = ""


GAUGES: Final[Sequence[Gauge]] = (
    Gauge(
        "jobs_enqueued",
        "Jobs that wait in all queues.",
        lambda facts: sum(queue.size for queue in facts.queues),
    ),
    Gauge("jobs_scheduled", "Jobs that are due later.", lambda facts: facts.schedule.size),
    Gauge(
        "jobs_retrying",
        "Jobs that failed and are due again.",
        lambda facts: facts.retry.size,
        "Retries",
    ),
    Gauge(
        "jobs_overdue",
        "Scheduled jobs and retries that are due and not moved yet.",
        lambda facts: facts.retry.due + facts.schedule.due,
    ),
    Gauge("jobs_dead", "Jobs in the dead set.", lambda facts: facts.dead, "Dead"),
    Gauge("jobs_dead_limit", "Jobs that the dead set keeps.", lambda facts: facts.dead_bounds.most),
    Gauge(
        "jobs_dead_dropped",
        "Dead jobs that were dropped within a day, since the dead set was full.",
        lambda facts: facts.dead_dropped,
    ),
    Gauge(
        "jobs_orphaned",
        "Jobs that silent workers of Python hold.",
        lambda facts: sum(each.held_jobs for each in facts.orphans),
    ),
    Gauge(
        "jobs_suspect",
        "Jobs that may have killed a worker and wait to run alone.",
        lambda facts: sum(queue.suspects for queue in facts.queues),
    ),
    Gauge(
        "processes_quiet",
        "Worker processes that take no new jobs.",
        lambda facts: sum(each.is_quiet for each in facts.processes),
    ),
    Gauge("busy", "Jobs that run now.", lambda facts: sum(each.busy for each in facts.processes)),
    Gauge(
        "concurrency",
        "Jobs that can run at once.",
        lambda facts: sum(each.concurrency for each in facts.processes),
    ),
    Gauge(
        "missed_ticks",
        "Ticks of schedules within a day that did not come in time.",
        lambda facts: len(facts.missed),
    ),
    Gauge(
        "missed_ticks_lost",
        "Of these, those that did not come later either.",
        lambda facts: sum(not each.came_later for each in facts.missed),
    ),
    Gauge(
        "redis_memory_bytes",
        "Bytes that Redis uses.",
        lambda facts: facts.memory.used if facts.memory else 0,
    ),
    Gauge(
        "redis_memory_limit_bytes",
        "Bytes that Redis may use; 0 = no limit.",
        lambda facts: facts.memory.most if facts.memory else 0,
    ),
)


def read_gauges(facts: Facts) -> Mapping[str, int]:
    """All of them: name → value."""
    return {each.name: each.read(facts) for each in GAUGES}
