"""All metrics: names, kinds and what they mean. The dashboard, docs/reference/logging.md and every form follow from it."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from kiqbridge.api.gauges import GAUGES
from kiqbridge.errors import ConfigError

Kind = Literal["gauge", "counter", "histogram"]
Scope = Literal["fleet", "worker"]

OTHERS: Final = "others"
"""Value of a label for all that is not shown by its name."""

MOST_QUEUES: Final = 100
MOST_CLASSES: Final = 50
"""So many have series of their own: each series costs memory and money in the metrics system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is known of a metric.

    Attributes:
        name: as Prometheus has it; counters end with `_total`.
        kind: a gauge goes up and down, a counter only up.
        help: what it means, with its unit.
        labels: names of its labels.
        scope: `fleet`: the same from every process that reads Redis; `worker`: of one process.
    """

    name: str
    kind: Kind
    help: str
    labels: Sequence[str]
    scope: Scope


class Distribution(NamedTuple):
    """A value of a histogram: how many were in each bucket, and their sum in seconds."""

    counts: Sequence[int]
    sum_s: float


class Family(NamedTuple):
    """A metric and its values: those of its labels → a number, of a histogram a `Distribution`."""

    metric: Metric
    values: Mapping[tuple[str, ...], float | Distribution]


def _fleet(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(name=f"kiqbridge_{name}", kind=kind, help=text, labels=labels, scope="fleet")


def _worker(name: str, text: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(
        name=f"kiqbridge_worker_{name}", kind=kind, help=text, labels=labels, scope="worker"
    )


METRICS: Final[Sequence[Metric]] = (
    _fleet("redis_up", "1 if Redis answered, else 0 and nothing else is shown."),
    _fleet("queue_size", "Jobs that wait in a queue.", "queue"),
    _fleet(
        "queue_latency_seconds", "Seconds for which the oldest job of a queue has waited.", "queue"
    ),
    _fleet("queue_paused", "1 if a queue is paused, else 0.", "queue"),
    *(_fleet(each.name, each.help) for each in GAUGES),
    _fleet("jobs_in_flight", "Jobs that workers of Python hold, those not begun included."),
    _fleet("jobs_processed_total", "Executions ever.", kind="counter"),
    _fleet("jobs_failed_total", "Executions ever that failed.", kind="counter"),
    _fleet("processes", "Worker processes that live.", "language"),
    _fleet("problems", "Facts of the verdict on the page Now.", "severity"),
    _fleet(
        "findings", "The same facts by the rule that found them (docs/reference/doctor.md).", "rule"
    ),
    _fleet(
        "class_recent_executions", "Executions of a class in the last five minutes.", "job_class"
    ),
    _fleet("class_recent_failures", "Of these, those that failed.", "job_class"),
    _worker("info", "1; which process this is.", "identity", "version"),
    _worker("jobs_processed_total", "Executions since the start.", kind="counter"),
    _worker("jobs_failed_total", "Executions since the start that failed.", kind="counter"),
    _worker("busy", "Jobs that run now."),
    _worker("concurrency", "Threads that perform jobs."),
    _worker("quiet", "1 if it takes no new jobs, else 0."),
    _worker("redis_round_trip_seconds", "Seconds of the last PING to Redis, at each heartbeat."),
    _worker("lost_threads_total", "Threads that did not come back from a job.", kind="counter"),
    _worker(
        "job_duration_seconds",
        "Seconds of executions that succeeded.",
        "job_class",
        kind="histogram",
    ),
    _worker(
        "class_failed_total", "Executions of a class that failed.", "job_class", kind="counter"
    ),
)
"""All of them; Prometheus gets them in this order."""


def families(scope: Scope, values: Mapping[str, Any]) -> list[Family]:
    """Metrics with their values.

    Args:
        scope: whose metrics.
        values: name, without what the scope begins with and without `_total` → its value, or label's value → value;
            of several labels their values as a tuple.
    """
    start = "kiqbridge_" if scope == "fleet" else "kiqbridge_worker_"
    found = []
    for metric in METRICS:
        name = metric.name.removeprefix(start).removesuffix("_total")
        if metric.scope == scope and name in values:
            given = values[name] if metric.labels else {(): values[name]}
            labelled = {
                tuple(map(_plain, (key,) if isinstance(key, str) else key)): value
                for key, value in given.items()
            }
            found.append(Family(metric, labelled))
    return found


def _plain(name: str) -> str:
    """A name as UTF-8 can carry it: anybody may have written any bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def load(module: str, extra: str) -> Any:
    """A library that only a setting asks for.

    Raises:
        ConfigError: it is not installed; names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{extra} needs {module.partition('.')[0]}: pip install 'kiqbridge[{extra}]'"
        ) from error
