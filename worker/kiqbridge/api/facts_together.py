"""What is known of several shards as one state (facts.py)."""

from collections import Counter
from collections.abc import Iterable, Mapping

from kiqbridge.api.facts import Facts, SetFacts
from kiqbridge.api.metric_reading import Counts


def together(shards: Mapping[str, Facts], missing: Iterable[tuple[str, str]]) -> Facts:
    """The state of all shards together.

    Args:
        shards: name → its state.
        missing: shards that did not answer, and why.
    """
    parts = list(shards.values())
    classes: dict[str, Counts] = {}
    for part in parts:
        for name, counts in part.classes.items():
            classes[name] = classes.get(name, Counts()) + counts
    pauses = {(each.kind, each.name): each for part in parts for each in part.pauses}
    unknown: Counter[str] = Counter()
    for part in parts:
        unknown.update(part.unknown)
    missed = {(each.schedule, each.at): each for part in parts for each in part.missed}
    memories = [part.memory for part in parts if part.memory is not None]
    return Facts(
        at=max(part.at for part in parts),
        queues=sorted((each for part in parts for each in part.queues), key=lambda each: each.name),
        processes=[each for part in parts for each in part.processes],
        gone=sum(part.gone for part in parts),
        work=sorted((each for part in parts for each in part.work), key=lambda each: each.run_at),
        pauses=list(pauses.values()),
        retry=sum((part.retry for part in parts), SetFacts()),
        schedule=sum((part.schedule for part in parts), SetFacts()),
        dead=sum(part.dead for part in parts),
        dead_lately=sum(part.dead_lately for part in parts),
        dead_dropped=sum(part.dead_dropped for part in parts),
        missed=sorted(missed.values(), key=lambda each: -each.at),
        leases=sum(part.leases for part in parts),
        orphans=[each for part in parts for each in part.orphans],
        memory=max(memories, key=lambda each: each.share, default=None),
        is_cluster=any(part.is_cluster for part in parts),
        ruby_in_cluster=[each for part in parts for each in part.ruby_in_cluster],
        classes=classes,
        unknown=unknown,
        refused=[f"shard {name}: {each}" for name, part in shards.items() for each in part.refused],
        shards=shards,
        away=dict(missing),
    )
