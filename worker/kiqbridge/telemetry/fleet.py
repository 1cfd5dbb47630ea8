"""The numbers of the fleet, out of Redis: the same whoever reads them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kiqbridge.api.facts import Facts, fetch_facts
from kiqbridge.api.metric_reading import Counts
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.verdict import KINDS
from kiqbridge.api.verdict_rules import judge
from kiqbridge.inflight.incarnations import list_registered
from kiqbridge.telemetry import catalogue
from kiqbridge.telemetry.catalogue import MOST_CLASSES, MOST_QUEUES, OTHERS, Family, Sample, gauge


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What one look at Redis found.

    Attributes:
        facts: of queues, sets, processes, schedules and the server.
        processed, failed: executions ever.
        in_flight: jobs that workers of Python hold.
    """

    facts: Facts
    processed: int
    failed: int
    in_flight: int


def fetch_numbers(operator: Operator | None = None) -> Numbers:
    """The numbers now, in six round trips.

    Args:
        operator: whose; default `default_operator()`.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    facts = fetch_facts(whose)
    processed, failed = whose.pool.run(
        ("GET", whose.keys.stat("processed")), ("GET", whose.keys.stat("failed"))
    )
    registered = list_registered(whose.pool, whose.keys)
    return Numbers(
        facts=facts,
        processed=_count(processed),
        failed=_count(failed),
        in_flight=sum(each.held_jobs for each in registered),
    )


def fetch_families(operator: Operator | None = None) -> list[Family]:
    """All metrics of the fleet now.

    Args:
        operator: whose; default `default_operator()`.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    return fleet_families(fetch_numbers(operator or default_operator()))


def fleet_families(numbers: Numbers) -> list[Family]:
    """All metrics of the fleet; of many queues and classes the largest, the rest together as `others`."""
    facts = numbers.facts
    verdict = judge(facts)
    severities = [fact.severity for fact in verdict.facts]
    kinds = [fact.kind for fact in verdict.facts]
    memory = facts.memory
    values: list[tuple[catalogue.Metric, float]] = [
        (catalogue.REDIS_UP, 1),
        (catalogue.ENQUEUED, sum(queue.size for queue in facts.queues)),
        (catalogue.SCHEDULED, facts.schedule.size),
        (catalogue.RETRYING, facts.retry.size),
        (catalogue.OVERDUE, facts.retry.due + facts.schedule.due),
        (catalogue.DEAD, facts.dead),
        (catalogue.DEAD_LIMIT, facts.dead_bounds.most),
        (catalogue.DEAD_DROPPED, facts.dead_dropped),
        (catalogue.IN_FLIGHT, numbers.in_flight),
        (catalogue.ORPHANED, sum(each.held_jobs for each in facts.orphans)),
        (catalogue.SUSPECT, sum(queue.suspects for queue in facts.queues)),
        (catalogue.PROCESSED, numbers.processed),
        (catalogue.FAILED, numbers.failed),
        (catalogue.QUIET, sum(each.is_quiet for each in facts.processes)),
        (catalogue.BUSY, sum(each.busy for each in facts.processes)),
        (catalogue.CONCURRENCY, sum(each.concurrency for each in facts.processes)),
        (catalogue.MISSED, len(facts.missed)),
        (catalogue.LOST, sum(not each.came_later for each in facts.missed)),
        (catalogue.MEMORY, memory.used if memory else 0),
        (catalogue.MEMORY_LIMIT, memory.most if memory else 0),
    ]
    ours = sum(each.is_ours for each in facts.processes)
    return [
        *(gauge(metric, value) for metric, value in values),
        *_queues(facts),
        _labelled(
            catalogue.PROCESSES,
            "language",
            {"python": ours, "ruby": len(facts.processes) - ours},
        ),
        _labelled(
            catalogue.PROBLEMS,
            "severity",
            {name: severities.count(name) for name in ("critical", "warning")},
        ),
        _labelled(catalogue.FINDINGS, "rule", {kind: kinds.count(kind) for kind in KINDS}),
        *_classes(facts.classes),
    ]


def _queues(facts: Facts) -> list[Family]:
    """Their sizes add up; of the latencies of those without a name the highest one is shown."""
    paused = {each.name for each in facts.pauses if each.kind == "queue"}
    ranked = sorted(facts.queues, key=lambda each: (-each.size, -each.latency_s, each.name))
    shown, rest = ranked[:MOST_QUEUES], ranked[MOST_QUEUES:]
    sizes: dict[str, float] = {queue.name: queue.size for queue in shown}
    latencies = {queue.name: max(0.0, queue.latency_s) for queue in shown}
    pauses: dict[str, float] = {queue.name: queue.name in paused for queue in shown}
    if rest:
        sizes[OTHERS] = sizes.get(OTHERS, 0) + sum(queue.size for queue in rest)
        latencies[OTHERS] = max(latencies.get(OTHERS, 0), *(queue.latency_s for queue in rest))
        pauses[OTHERS] = max(pauses.get(OTHERS, 0), *(queue.name in paused for queue in rest))
    return [
        _labelled(catalogue.QUEUE_SIZE, "queue", sizes),
        _labelled(catalogue.QUEUE_LATENCY, "queue", latencies),
        _labelled(catalogue.QUEUE_PAUSED, "queue", pauses),
    ]


def _classes(classes: Mapping[str, Counts]) -> Iterable[Family]:
    ranked = sorted(classes.items(), key=lambda each: (-each[1].executions, each[0]))
    kept: dict[str, Counts] = dict(ranked[:MOST_CLASSES])
    for _, counts in ranked[MOST_CLASSES:]:
        kept[OTHERS] = kept.get(OTHERS, Counts()) + counts
    executions = {name: counts.executions for name, counts in kept.items()}
    failures = {name: counts.failures for name, counts in kept.items()}
    yield _labelled(catalogue.RECENT, "job_class", executions)
    yield _labelled(catalogue.RECENT_FAILURES, "job_class", failures)


def _labelled(metric: catalogue.Metric, label: str, values: Mapping[str, float]) -> Family:
    samples: Sequence[Sample] = [
        Sample(value=value, labels={label: plain(name)}) for name, value in values.items()
    ]
    return Family(metric=metric, samples=samples)


def plain(name: str) -> str:
    """A name as UTF-8 can carry it: anybody may have written any bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _count(reply: Any) -> int:
    try:
        return int(reply or 0)
    except ValueError:
        return 0
