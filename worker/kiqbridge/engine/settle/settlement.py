"""What a job asks for that has ended, before it is written; one that simply succeeded asks for nothing."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect


class Target(StrEnum):
    """Where a job goes that did not simply succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched but for the count of a limiter. ROUTE is the end of another queue, untouched as well. DISCARD leaves
    Redis: with the acknowledgement of its chunk, or by a script of its own if its end has effects.
    """

    RETRY = "retry"
    DEAD = "dead"
    DISCARD = "discard"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job asks for that did not simply succeed.

    Attributes:
        target: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept; without meaning for DISCARD.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        failed: whether it counts as failed, if it is counted.
        notify: calls the error and death handlers; to be called once it is written, and only then.
        queue: where a job goes that is routed or pushed again.
        effects: of its end (ending.py); they come about with it.
    """

    target: Target
    score: float
    text: bytes
    counted: bool
    notify: Callable[[], None] | None = None
    queue: str = ""
    failed: bool = True
    effects: Sequence[Effect] = ()

    @property
    def leaves_with_chunk(self) -> bool:
        """Whether it leaves Redis with the acknowledgement of its chunk, and nothing is written of it."""
        return self.target is Target.DISCARD and not self.effects

    @property
    def goes_on(self) -> bool:
        """Whether it has made room, or was put off, and its run goes on later."""
        return self.target in (Target.REPUSH, Target.SCHEDULE)
