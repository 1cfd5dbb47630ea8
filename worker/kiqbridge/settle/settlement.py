"""What a job that did not succeed asks for, before it is written."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Where a job goes that did not succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched. ROUTE is the end of another queue, untouched as well.
    """

    RETRY = "retry"
    DEAD = "dead"
    DISCARD = "discard"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job that did not succeed asks for.

    Attributes:
        verdict: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        notify: calls the error and death handlers; to be called once it is written, and only then.
        queue: where a job goes that is routed or pushed again.
    """

    verdict: Verdict
    score: float
    text: bytes
    counted: bool
    notify: Callable[[], None] | None = None
    queue: str = ""
