"""Several expressions of one schedule: due whenever one of them is, once where several are.

EventBridge takes one day field in an expression, so a schedule that is due on the 13th or on Fridays is two
rules. They share one ledger, in which the second delivery of the same instant is a duplicate.
"""

import heapq
from collections.abc import Iterator
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from kiqbridge.records import dataclass
from kiqbridge.schedule.cron import Bounds

if TYPE_CHECKING:
    from kiqbridge.schedule.cron import ScheduleExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """Due when any of its parts is; all of them have its zone and its bounds."""

    text: str
    timezone: str
    bounds: Bounds
    parts: "tuple[ScheduleExpression, ...]" = field(repr=False)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none any more."""
        found = (part.next_after(instant) for part in self.parts)
        return min((each for each in found if each is not None), default=None)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last occurrence that is not later than `instant`, in UTC; None if there was none."""
        found = (part.latest_at_or_before(instant) for part in self.parts)
        return max((each for each in found if each is not None), default=None)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Occurrences with start < t <= end, ascending, in UTC."""
        last = None
        for tick in heapq.merge(*(part.between(start, end) for part in self.parts)):
            if tick != last:
                yield tick
            last = tick
