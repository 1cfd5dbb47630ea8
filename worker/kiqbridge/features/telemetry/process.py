"""The numbers of one worker process, out of its memory: no Redis, no lock."""

from collections.abc import Mapping
from typing import Any

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


class ShownClasses:
    """Which classes have series of their own: the first ones that ran, as long as the process lives.

    A class that changed places with the others would make their counters fall.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __call__(self, name: str) -> str:
        """The label of a class."""
        if name not in self._names:
            if len(self._names) >= catalogue.MOST_CLASSES:
                return catalogue.OTHERS
            self._names[name] = None
        return name


_shown = ShownClasses()


def _classes(classes: Mapping[str, Measured]) -> dict[str, Mapping[str, Any]]:
    durations: dict[str, catalogue.Distribution] = {}
    failures: dict[str, int] = {}
    for name, measured in classes.items():
        label = _shown(name)
        counts, sum_s = durations.get(label, ([0] * BUCKETS, 0.0))
        added = [count + measured.histogram.get(at, 0) for at, count in enumerate(counts)]
        durations[label] = catalogue.Distribution(added, sum_s + measured.ms / 1000)
        failures[label] = failures.get(label, 0) + measured.failed
    return {"job_duration_seconds": durations, "class_failed": failures}
