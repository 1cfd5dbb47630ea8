"""The numbers of one worker process, out of its memory: no Redis, no lock."""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge import __version__
from kiqbridge.engine.numbers import ProcessNumbers
from kiqbridge.engine.settle.metrics import Measured
from kiqbridge.features.telemetry import catalogue
from kiqbridge.wire.measures import BUCKETS


def process_families(identity: str, numbers: ProcessNumbers) -> list[catalogue.Family]:
    """All metrics of a process; of many classes those that ran first, the rest together as `others`."""
    return catalogue.families(
        "worker",
        {
            "info": {(identity, __version__): 1},
            "jobs_processed": numbers.processed,
            "jobs_failed": numbers.failed,
            "busy": numbers.busy,
            "concurrency": numbers.concurrency,
            "quiet": numbers.is_quiet,
            "redis_round_trip_seconds": numbers.round_trip_s,
            "lost_threads": numbers.lost_threads,
            **_classes(numbers.classes),
        },
    )


_named: Final[dict[str, None]] = {}


def label_of(name: str) -> str:
    """The label of a class: its name for the first `MOST_CLASSES` that come, and for ever; of further ones `OTHERS`."""
    if name not in _named and len(_named) < catalogue.MOST_CLASSES:
        _named[name] = None
    return name if name in _named else catalogue.OTHERS


def _classes(classes: Mapping[str, Measured]) -> dict[str, Mapping[str, Any]]:
    durations: dict[str, catalogue.Distribution] = {}
    failures: dict[str, int] = {}
    for name, measured in classes.items():
        label = label_of(name)
        counts, sum_s = durations.get(label, ([0] * BUCKETS, 0.0))
        added = [count + measured.histogram.get(at, 0) for at, count in enumerate(counts)]
        durations[label] = catalogue.Distribution(added, sum_s + measured.ms / 1000)
        failures[label] = failures.get(label, 0) + measured.failed
    return {"job_duration_seconds": durations, "class_failed": failures}
