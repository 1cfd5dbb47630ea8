"""How many jobs may wait in a queue before the enqueue function pushes no more, and what it does then."""

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass

_ENTRY: Final = re.compile(
    r"(?P<queues>[^=,:\s]+)=(?P<most>\d+):(?P<action>[a-z]+)(?::(?P<delay>\d+))?", re.ASCII
)
_FORM: Final = "write QUEUE=NUMBER:reject, QUEUE=NUMBER:delay:SECONDS or QUEUE=NUMBER:spill"


class DepthAction(StrEnum):
    """What becomes of a job for a queue that is at its limit."""

    REJECT = "reject"
    """It is an error, so that the caller or the service sends it again."""
    DELAY = "delay"
    """It is put into the schedule, from where it comes into the queue some seconds later."""
    SPILL = "spill"
    """It waits in the spill queue until the queue is below its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimit:
    """The limit of one queue, or of all that match.

    Attributes:
        queues: a name, or a glob.
        most: number of waiting jobs from which no more is pushed.
        action: what becomes of further jobs.
        delay_s: seconds, for DELAY.
    """

    queues: str
    most: int
    action: DepthAction
    delay_s: int = 0


def parse_queue_limits(value: Any, source: str, _name: str = "") -> tuple[QueueLimit, ...]:
    """Read `default=100000:reject,low=50000:delay:60,mail=1000:spill`.

    Raises:
        ConfigError: an entry has another form.
    """
    return tuple(_parsed(entry.strip(), source) for entry in str(value).split(",") if entry.strip())


def limit_of(limits: Sequence[QueueLimit], queue: str) -> QueueLimit | None:
    """The first that is about this queue."""
    return next((each for each in limits if fnmatchcase(queue, each.queues)), None)


def _parsed(entry: str, source: str) -> QueueLimit:
    match = _ENTRY.fullmatch(entry)
    action = match["action"] if match else None
    if match is None or action not in set(DepthAction):
        raise ConfigError(
            f"queue_limits: {entry!r} is no limit of a queue (from {source}); {_FORM}"
        )
    delay_s = int(match["delay"] or 0)
    if (action == DepthAction.DELAY) != (delay_s > 0):
        raise ConfigError(
            f"queue_limits: {entry!r}: seconds belong to delay, and only there (from {source}); {_FORM}"
        )
    return QueueLimit(
        queues=match["queues"],
        most=int(match["most"]),
        action=DepthAction(match["action"]),
        delay_s=delay_s,
    )
