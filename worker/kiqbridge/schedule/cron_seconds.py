"""Cron lines with a field of seconds in front, as sidekiq-cron reads them: due more often than each minute.

EventBridge cannot say them; the fleet's leader can place their occurrences.
"""

from collections.abc import Iterator
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from kiqbridge.records import dataclass
from kiqbridge.schedule.cron import Bounds, Cron, require_instant, until_end
from kiqbridge.schedule.cron_fields import CronFields

_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSeconds:
    """Due at these seconds of the wall-clock minutes that match its fields."""

    text: str
    timezone: str
    bounds: Bounds
    fields: CronFields = field(repr=False)
    seconds: tuple[int, ...]

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none any more."""
        return next(self._after(instant), None)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last occurrence that is not later than `instant`, in UTC; None if there was none."""
        until = min(require_instant(instant), self.bounds.last)
        minutes = self._minutes()
        minute = minutes.latest_at_or_before(until)
        while minute is not None:
            for second in reversed(self.seconds):
                due = minute + timedelta(seconds=second)
                if due <= until:
                    return due if self.bounds.contain(due) else None
            minute = minutes.latest_at_or_before(minute - timedelta.resolution)
        return None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Occurrences with start < t <= end, ascending, in UTC."""
        return until_end(end, self._after(start))

    def _after(self, instant: datetime) -> Iterator[datetime]:
        after = require_instant(instant)
        begin = self.bounds.lower(after)
        due = (tick for tick in self._from(begin) if tick > after and tick >= begin)
        return until_end(self.bounds.last, due)

    def _from(self, instant: datetime) -> Iterator[datetime]:
        """Occurrences from a minute before the instant on."""
        minutes, minute = self._minutes(), instant - _MINUTE
        while (following := minutes.next_after(minute)) is not None:
            minute = following
            for second in self.seconds:
                yield minute + timedelta(seconds=second)

    def _minutes(self) -> Cron:
        return Cron(text=self.text, timezone=self.timezone, bounds=Bounds(), fields=self.fields)
