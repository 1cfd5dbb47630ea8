"""When the clocks of a time zone change, and which times of an expression are left out or come twice by it; pure."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Bounds, Cron, ScheduleExpression

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_DAYS_AHEAD: Final = 400  # a zone whose clocks change does so within a year


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChange:
    """The clocks of a zone change.

    Attributes:
        timezone: IANA name.
        instant: the first one with the new offset, in UTC.
        before, after: wall-clock times of the old and of the new offset at that instant, without a zone.
        names: abbreviations of both, such as CEST and CET.
    """

    timezone: str
    instant: datetime
    before: datetime
    after: datetime
    names: tuple[str, str]

    @property
    def is_forward(self) -> bool:
        """Whether wall-clock times are left out, and do not come twice."""
        return self.after > self.before

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The wall-clock times that are left out, or come twice: from, and before."""
        low, high = sorted((self.before, self.after))
        return low, high

    def times_of(self, when: ScheduleExpression) -> Sequence[datetime]:
        """The wall-clock times of the span that an expression names."""
        if not isinstance(when, Cron):
            return ()
        wall = dataclasses.replace(when, timezone="UTC", bounds=Bounds())
        first, last = (moment.replace(tzinfo=UTC) - _MINUTE for moment in self.span)
        return [time.replace(tzinfo=None) for time in wall.between(first, last)]


def next_change(timezone: str, instant: datetime) -> ZoneChange | None:
    """The first change of a zone's clocks after an instant; None: none within 400 days."""
    zone = ZoneInfo(timezone)
    low = instant.astimezone(UTC).replace(microsecond=0)
    offset = low.astimezone(zone).utcoffset()
    for _ in range(_DAYS_AHEAD):
        high = low + _DAY
        if high.astimezone(zone).utcoffset() != offset:
            return _between(timezone, low, high)
        low = high
    return None


def _between(timezone: str, low: datetime, high: datetime) -> ZoneChange:
    zone = ZoneInfo(timezone)
    offset = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + _SECOND * int((high - low) / _SECOND / 2)
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    after = high.astimezone(zone)
    before = high + (offset or timedelta())
    return ZoneChange(
        timezone=timezone,
        instant=high,
        before=before.replace(tzinfo=None),
        after=after.replace(tzinfo=None),
        names=(low.astimezone(zone).tzname() or "", after.tzname() or ""),
    )
