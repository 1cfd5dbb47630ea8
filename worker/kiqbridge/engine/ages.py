"""How old things are that should not grow old: running jobs, suspects, due jobs, the last recovery.

They stand in the status file (`kiqbridge health --json`) and in the process' hash in Redis, as fields
with the prefix `kb_`, which Ruby's readers pass over. What is too old is logged once, and again when
it is over.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from kiqbridge.engine.inflight.recovery import Reaped
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.runtime.records import dataclass

logger = logging.getLogger(__name__)

OLD_JOB_S = 3600.0
OLD_SUSPECT_S = 600.0
OLD_DUE_S = 30.0


class Suspects(Protocol):
    """What looks for suspects and runs them.

    Attributes:
        processed, failed: how many so far.
        suspects: how many wait, by queue; seen since `suspects_since` on `lease_now`.
    """

    processed: int
    failed: int
    suspects: Mapping[str, int]
    suspects_since: float

    def running(self) -> Mapping[str, RunningJob]:
        """Those that run now, by the id of their thread."""

    def stacks(self) -> Mapping[str, str]:
        """Where those are in their code, as `JobPool` says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """As they are now, in seconds.

    Attributes:
        oldest_job_s: for how long the job runs that has been running longest; None = none runs.
        suspects: how many wait to run alone, by queue; only queues that this process serves.
        suspects_s: for how long this process has seen some.
        poller_lag_s: for how long the most overdue job of `retry` and `schedule` has been due; None =
            another process leads, or nothing waits.
        last_recovery: the last process whose jobs this one gave back: `ago_s`, `process`, `returned`,
            `suspected` and `blocked` (reasons why some could not go back); None = none yet.
    """

    oldest_job_s: float | None = None
    suspects: Mapping[str, int] = field(default_factory=dict)
    suspects_s: float | None = None
    poller_lag_s: float | None = None
    last_recovery: Mapping[str, object] | None = None

    def fields(self) -> dict[str, str | float]:
        """For the process' hash; "" where there is none."""
        return {
            "kb_oldest_job_s": _field(self.oldest_job_s),
            "kb_suspects": sum(self.suspects.values()),
            "kb_poller_lag_s": _field(self.poller_lag_s),
        }


def ages_of(
    running: Iterable[RunningJob],
    *,
    suspects: Suspects | None,
    earliest_due: float | None,
    last_reaped: Reaped | None,
    wall: float,
    lease: float,
) -> Ages:
    """The ages now.

    Args:
        running: jobs that run here.
        suspects: what looks for them.
        earliest_due: epoch seconds at which the first member of `retry` and `schedule` is due.
        last_reaped: what this process gave back last.
        wall: now in epoch seconds.
        lease: now on `lease_now`.
    """
    begun = min((job.run_at for job in running), default=None)
    counts = dict(suspects.suspects) if suspects else {}
    return Ages(
        oldest_job_s=None if begun is None else round(max(wall - begun, 0), 3),
        suspects=counts,
        suspects_s=round(lease - suspects.suspects_since, 3) if suspects and counts else None,
        poller_lag_s=None if earliest_due is None else round(max(wall - earliest_due, 0), 3),
        last_recovery=None
        if last_reaped is None
        else {
            "ago_s": round(lease - last_reaped.at, 3),
            "process": last_reaped.incarnation,
            "returned": last_reaped.outcome.returned,
            "suspected": last_reaped.outcome.suspected,
            "blocked": list(last_reaped.outcome.blocked),
        },
    )


class AgeReport:
    """Logs what is too old: once, and once when it is over; to be called at each beat."""

    def __init__(self, look: Callable[[], Ages]) -> None:
        self._look = look
        self._old: set[str] = set()

    def report(self) -> None:
        """Look, and log what has changed."""
        ages = self._look()
        self._report(
            "job",
            ages.oldest_job_s,
            OLD_JOB_S,
            logging.INFO,
            "a job has been running for %.0f s; max_run_s of its class takes it away from a worker on which it hangs",
        )
        self._report(
            "suspects",
            ages.suspects_s,
            OLD_SUSPECT_S,
            logging.WARNING,
            "jobs that are to run alone have been waiting for %.0f s; is their queue paused, or does one "
            "of them take that long?",
        )
        self._report(
            "due",
            ages.poller_lag_s,
            OLD_DUE_S,
            logging.WARNING,
            "due jobs of retry or schedule are not moved to their queues: the first has been due for %.0f "
            "s; the log says what cannot be moved, else Redis or this process is too slow",
        )

    def _report(self, name: str, age: float | None, bound: float, level: int, message: str) -> None:
        is_old = age is not None and age >= bound
        if is_old and name not in self._old:
            self._old.add(name)
            logger.log(level, message, age)
        elif not is_old and name in self._old:
            self._old.discard(name)
            logger.info("%s: no longer older than %.0f s", name, bound)


def _field(age: float | None) -> str | float:
    return "" if age is None else age
