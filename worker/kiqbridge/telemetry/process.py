"""The numbers of one worker process, out of its memory: no Redis, no lock."""

from collections.abc import Iterable, Mapping

from kiqbridge import __version__
from kiqbridge.engine.numbers import ProcessNumbers
from kiqbridge.settle.metrics import Measured
from kiqbridge.telemetry import catalogue
from kiqbridge.telemetry.catalogue import MOST_CLASSES, OTHERS, Distribution, Family, Sample, gauge
from kiqbridge.telemetry.fleet import plain
from kiqbridge.wire.measures import BUCKETS


def process_families(identity: str, numbers: ProcessNumbers) -> list[Family]:
    """All metrics of a process; of many classes those that ran most, the rest together as `others`."""
    return [
        gauge(catalogue.WORKER_INFO, 1, identity=plain(identity), version=__version__),
        gauge(catalogue.WORKER_PROCESSED, numbers.processed),
        gauge(catalogue.WORKER_FAILED, numbers.failed),
        gauge(catalogue.WORKER_BUSY, numbers.busy),
        gauge(catalogue.WORKER_CONCURRENCY, numbers.concurrency),
        gauge(catalogue.WORKER_QUIET, numbers.is_quiet),
        gauge(catalogue.WORKER_ROUND_TRIP, numbers.round_trip_s),
        gauge(catalogue.WORKER_LOST, numbers.lost_threads),
        *_classes(numbers.classes),
    ]


class ShownClasses:
    """Which classes have series of their own: the first ones that ran, as long as the process lives.

    A class that changed places with the others would make their counters fall.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __call__(self, name: str) -> str:
        """The label of a class."""
        if name not in self._names:
            if len(self._names) >= MOST_CLASSES:
                return OTHERS
            self._names[name] = None
        return plain(name)


_shown = ShownClasses()


def _classes(classes: Mapping[str, Measured]) -> Iterable[Family]:
    counts: dict[str, list[int]] = {}
    sums: dict[str, float] = {}
    failures: dict[str, int] = {}
    for name, measured in classes.items():
        label = _shown(name)
        counted = counts.setdefault(label, [0] * BUCKETS)
        for index, count in measured.histogram.items():
            counted[index] += count
        sums[label] = sums.get(label, 0.0) + measured.ms / 1000
        failures[label] = failures.get(label, 0) + measured.failed
    yield Family(
        metric=catalogue.WORKER_DURATION,
        distributions=[
            Distribution(counts=counted, sum_s=sums[label], labels={"job_class": label})
            for label, counted in counts.items()
        ],
    )
    yield Family(
        metric=catalogue.WORKER_CLASS_FAILED,
        samples=[
            Sample(value=count, labels={"job_class": label}) for label, count in failures.items()
        ],
    )
