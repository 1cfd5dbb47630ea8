"""When the clocks of a time zone change, and which times of an expression are left out or come twice by it; pure."""

import dataclasses
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Bounds, Cron, ScheduleExpression

_MINUTE: Final = timedelta(minutes=1)
_DAY_S: Final = 86_400
_AHEAD_S: Final = 401 * _DAY_S  # a zone whose clocks change does so within a year


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
    start = instant.astimezone(UTC).replace(microsecond=0)
    offset = start.astimezone(zone).utcoffset()

    def has_changed(seconds: int) -> bool:
        return (start + timedelta(seconds=seconds)).astimezone(zone).utcoffset() != offset

    day = next((end for end in range(_DAY_S, _AHEAD_S, _DAY_S) if has_changed(end)), None)
    if day is None:
        return None
    second = bisect_left(range(day), True, lo=day - _DAY_S, key=has_changed)
    change = start + timedelta(seconds=second)
    before = (change - timedelta(seconds=1)).astimezone(zone)
    after = change.astimezone(zone)
    return ZoneChange(
        timezone=timezone,
        instant=change,
        before=(change + (offset or timedelta())).replace(tzinfo=None),
        after=after.replace(tzinfo=None),
        names=(before.tzname() or "", after.tzname() or ""),
    )
