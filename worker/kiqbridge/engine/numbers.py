"""What a worker process knows of itself, for those who plot it (features/telemetry)."""

from collections.abc import Mapping
from typing import Protocol

from kiqbridge.engine.settle.metrics import Measured
from kiqbridge.runtime.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessNumbers:
    """The numbers of one process at one moment; all that counts something counts from its start.

    Attributes:
        processed, failed: executions, and those that failed.
        busy: jobs that run.
        concurrency: threads that perform jobs.
        is_quiet: whether it takes no new jobs.
        round_trip_s: seconds of the last PING to Redis.
        lost_threads: threads that do not come back from a job that was taken away from them.
        leads: whether it is the leader of the fleet.
        classes: what was measured of each class.
    """

    processed: int
    failed: int
    busy: int
    concurrency: int
    is_quiet: bool
    round_trip_s: float
    lost_threads: int
    leads: bool
    classes: Mapping[str, Measured]


class Overruns(Protocol):
    """What takes jobs away that run too long.

    Attributes:
        overran: how many jobs were taken away.
        lost: how many threads did not come back.
    """

    overran: int
    lost: int
