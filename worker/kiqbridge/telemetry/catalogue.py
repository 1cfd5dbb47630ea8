"""All metrics: names, kinds and what they mean. The dashboard, docs/telemetry.md and every form follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["gauge", "counter", "histogram"]

OTHERS: Final = "others"
"""Value of a label for all that is not shown by its name."""

MOST_QUEUES: Final = 100
MOST_CLASSES: Final = 50
"""So many have series of their own: each one costs whoever keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is known of a metric.

    Attributes:
        name: as Prometheus has it; counters end with `_total`.
        kind: a gauge goes up and down, a counter only up.
        help: what it means, with its unit.
        labels: names of its labels.
        scope: `fleet`: the same from whoever reads Redis; `worker`: of one process.
    """

    name: str
    kind: Kind
    help: str
    labels: Sequence[str] = ()
    scope: Literal["fleet", "worker"] = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value and its labels."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The values of a histogram: how many were in each bucket, their sum in seconds, and labels."""

    counts: Sequence[int]
    sum_s: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric with its values."""

    metric: Metric
    samples: Sequence[Sample] = ()
    distributions: Sequence[Distribution] = ()


def _fleet(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(name=f"kiqbridge_{name}", kind=kind, help=text, labels=labels)


def _worker(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(
        name=f"kiqbridge_worker_{name}", kind=kind, help=text, labels=labels, scope="worker"
    )


REDIS_UP: Final = _fleet("redis_up", "1 if Redis answered, else 0 and nothing else is shown.")
QUEUE_SIZE: Final = _fleet("queue_size", "Jobs that wait in a queue.", "queue")
QUEUE_LATENCY: Final = _fleet(
    "queue_latency_seconds", "Seconds for which the oldest job of a queue has waited.", "queue"
)
QUEUE_PAUSED: Final = _fleet("queue_paused", "1 if a queue is paused, else 0.", "queue")
ENQUEUED: Final = _fleet("jobs_enqueued", "Jobs that wait in all queues.")
SCHEDULED: Final = _fleet("jobs_scheduled", "Jobs that are due later.")
RETRYING: Final = _fleet("jobs_retrying", "Jobs that failed and are due again.")
OVERDUE: Final = _fleet(
    "jobs_overdue", "Scheduled jobs and retries that are due and not moved yet."
)
DEAD: Final = _fleet("jobs_dead", "Jobs in the dead set.")
DEAD_LIMIT: Final = _fleet("jobs_dead_limit", "Jobs that the dead set keeps.")
DEAD_DROPPED: Final = _fleet(
    "jobs_dead_dropped", "Dead jobs that were dropped within a day, since the dead set was full."
)
IN_FLIGHT: Final = _fleet(
    "jobs_in_flight", "Jobs that workers of Python hold, those not begun included."
)
ORPHANED: Final = _fleet("jobs_orphaned", "Jobs that silent workers of Python hold.")
SUSPECT: Final = _fleet("jobs_suspect", "Jobs that may have killed a worker and wait to run alone.")
PROCESSED: Final = _fleet("jobs_processed_total", "Executions ever.", kind="counter")
FAILED: Final = _fleet("jobs_failed_total", "Executions ever that failed.", kind="counter")
PROCESSES: Final = _fleet("processes", "Worker processes that live.", "language")
QUIET: Final = _fleet("processes_quiet", "Worker processes that take no new jobs.")
BUSY: Final = _fleet("busy", "Jobs that run now.")
CONCURRENCY: Final = _fleet("concurrency", "Jobs that can run at once.")
MISSED: Final = _fleet("missed_ticks", "Ticks of schedules within a day that did not come in time.")
LOST: Final = _fleet("missed_ticks_lost", "Of these, those that did not come later either.")
PROBLEMS: Final = _fleet("problems", "Facts of the verdict on the page Now.", "severity")
FINDINGS: Final = _fleet(
    "findings", "The same facts by the rule that found them (docs/doctor.md).", "rule"
)
RECENT: Final = _fleet(
    "class_recent_executions", "Executions of a class in the last five minutes.", "job_class"
)
RECENT_FAILURES: Final = _fleet(
    "class_recent_failures", "Of these, those that failed.", "job_class"
)
MEMORY: Final = _fleet("redis_memory_bytes", "Bytes that Redis uses.")
MEMORY_LIMIT: Final = _fleet("redis_memory_limit_bytes", "Bytes that Redis may use; 0 = no limit.")

WORKER_INFO: Final = _worker("info", "1; which process this is.", "identity", "version")
WORKER_PROCESSED: Final = _worker(
    "jobs_processed_total", "Executions since the start.", kind="counter"
)
WORKER_FAILED: Final = _worker(
    "jobs_failed_total", "Executions since the start that failed.", kind="counter"
)
WORKER_BUSY: Final = _worker("busy", "Jobs that run now.")
WORKER_CONCURRENCY: Final = _worker("concurrency", "Threads that perform jobs.")
WORKER_QUIET: Final = _worker("quiet", "1 if it takes no new jobs, else 0.")
WORKER_ROUND_TRIP: Final = _worker(
    "redis_round_trip_seconds", "Seconds of the last PING to Redis, at each heartbeat."
)
WORKER_LOST: Final = _worker(
    "lost_threads_total", "Threads that did not come back from a job.", kind="counter"
)
WORKER_DURATION: Final = _worker(
    "job_duration_seconds", "Seconds of executions that succeeded.", "job_class", kind="histogram"
)
WORKER_CLASS_FAILED: Final = _worker(
    "class_failed_total", "Executions of a class that failed.", "job_class", kind="counter"
)

METRICS: Final[Sequence[Metric]] = (
    *(REDIS_UP, QUEUE_SIZE, QUEUE_LATENCY, QUEUE_PAUSED, ENQUEUED, SCHEDULED, RETRYING, OVERDUE),
    *(
        DEAD,
        DEAD_LIMIT,
        DEAD_DROPPED,
        IN_FLIGHT,
        ORPHANED,
        SUSPECT,
        PROCESSED,
        FAILED,
        PROCESSES,
        QUIET,
        BUSY,
        CONCURRENCY,
    ),
    *(MISSED, LOST, PROBLEMS, FINDINGS, RECENT, RECENT_FAILURES, MEMORY, MEMORY_LIMIT),
    *(WORKER_INFO, WORKER_PROCESSED, WORKER_FAILED, WORKER_BUSY, WORKER_CONCURRENCY, WORKER_QUIET),
    *(WORKER_ROUND_TRIP, WORKER_LOST, WORKER_DURATION, WORKER_CLASS_FAILED),
)
"""All of them, in the order of docs/telemetry.md."""


def gauge(metric: Metric, value: float, **labels: str) -> Family:
    """A metric with one value."""
    return Family(metric=metric, samples=[Sample(value=value, labels=labels)])
