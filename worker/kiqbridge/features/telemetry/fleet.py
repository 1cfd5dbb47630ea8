"""The numbers of the fleet, out of Redis: the same in every process that reads them."""

from collections.abc import Mapping

from kiqbridge.api.counts import Counts
from kiqbridge.api.facts import Facts, fetch_facts
from kiqbridge.api.gauges import read_gauges
from kiqbridge.api.operator import Operator
from kiqbridge.api.rulebook import RULEBOOK
from kiqbridge.api.verdict_rules import judge
from kiqbridge.engine.inflight.incarnations import list_registered
from kiqbridge.features.telemetry import catalogue
from kiqbridge.store.replies import count_in


def fleet_families(operator: Operator) -> list[catalogue.Family]:
    """All metrics of the fleet now, in six round trips; of many queues and classes the largest, the rest as `others`.

    Args:
        operator: whose.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    facts = fetch_facts(operator)
    processed, failed = operator.pool.run(
        ("GET", operator.keys.stat("processed")), ("GET", operator.keys.stat("failed"))
    )
    registered = list_registered(operator.pool, operator.keys)
    wrong = judge(facts).facts
    severities = [fact.severity for fact in wrong]
    kinds = [fact.kind for fact in wrong]
    processes = facts.processes
    ours = sum(each.is_ours for each in processes)
    return catalogue.families(
        "fleet",
        {
            "redis_up": 1,
            **read_gauges(facts),
            "jobs_in_flight": sum(each.held_jobs for each in registered),
            "jobs_processed": count_in(processed),
            "jobs_failed": count_in(failed),
            "processes": {"python": ours, "ruby": len(processes) - ours},
            "problems": {name: severities.count(name) for name in ("critical", "warning")},
            "findings": {rule.id: kinds.count(rule.id) for rule in RULEBOOK},
            **_queues(facts),
            **_classes(facts.classes),
        },
    )


def _queues(facts: Facts) -> dict[str, Mapping[str, float]]:
    """Their sizes add up; of the latencies of those without a name the highest one is shown."""
    paused = {each.name for each in facts.pauses if each.kind == "queue"}
    ranked = sorted(facts.queues, key=lambda each: (-each.size, -each.latency_s, each.name))
    sizes, latencies, pauses = dict[str, float](), dict[str, float](), dict[str, float]()
    for place, queue in enumerate(ranked):
        name = queue.name if place < catalogue.MOST_QUEUES else catalogue.OTHERS
        sizes[name] = sizes.get(name, 0) + queue.size
        latencies[name] = max(latencies.get(name, 0.0), queue.latency_s)
        pauses[name] = max(pauses.get(name, 0), queue.name in paused)
    return {"queue_size": sizes, "queue_latency_seconds": latencies, "queue_paused": pauses}


def _classes(classes: Mapping[str, Counts]) -> dict[str, Mapping[str, float]]:
    ranked = sorted(classes.items(), key=lambda each: (-each[1].executions, each[0]))
    kept: dict[str, Counts] = dict(ranked[: catalogue.MOST_CLASSES])
    for _, counts in ranked[catalogue.MOST_CLASSES :]:
        kept[catalogue.OTHERS] = kept.get(catalogue.OTHERS, Counts()) + counts
    return {
        "class_recent_executions": {name: counts.executions for name, counts in kept.items()},
        "class_recent_failures": {name: counts.failures for name, counts in kept.items()},
    }
