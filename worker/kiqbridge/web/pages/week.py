"""The week of all schedules: when each fires, where several fall on one minute, and which ticks did not come."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from typing import Final

from kiqbridge.api import ScheduleView

BACK_DAYS, DAYS = 2, 7
OFTEN: Final = 24 * DAYS + 1
"""A schedule with so many occurrences in a week fires more often than hourly: it would fill all cells."""
MOST_NAMES: Final = 6


@dataclass(slots=True)
class Hour:
    """An hour of a day.

    Attributes:
        names: schedules that fire within it, with the minute.
        collides: most of them that fire within one minute.
        missed: schedules of which a tick did not come.
    """

    names: list[str] = field(default_factory=list)
    collides: int = 1
    missed: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """All of it in words."""
        parts = [", ".join(self.names[:MOST_NAMES])] if self.names else []
        if len(self.names) > MOST_NAMES:
            parts.append(f"and {len(self.names) - MOST_NAMES} more")
        if self.collides > 1:
            parts.append(f"{self.collides} at the same minute")
        return "; ".join([*parts, *(f"missed: {name}" for name in self.missed[:MOST_NAMES])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Two days back and five ahead.

    Attributes:
        days: each with its 24 hours.
        often: schedules that fire more often than hourly, which no cell shows.
    """

    days: Sequence[tuple[datetime, Sequence[Hour]]]
    often: Sequence[str]


def week_of(schedules: Sequence[ScheduleView], now: float, zone: tzinfo) -> Week:
    """The week around `now` (epoch seconds), on the clock of a zone."""
    today = datetime.fromtimestamp(now, zone).date()
    first = datetime.combine(today - timedelta(days=BACK_DAYS), time(), zone)
    end = datetime.combine(today + timedelta(days=DAYS - BACK_DAYS), time(), zone)
    hours: defaultdict[tuple[object, int], Hour] = defaultdict(Hour)
    minutes: Counter[datetime] = Counter()
    often = []
    for schedule in schedules:
        coming = [datetime.fromtimestamp(at, zone) for at in schedule.next if at < end.timestamp()]
        if len(coming) >= OFTEN:
            often.append(schedule.name)
            coming = []
        for at in coming:
            hour = hours[at.date(), at.hour]
            hour.names.append(f"{at:%H:%M} {schedule.name}")
            minute = at.replace(second=0)
            minutes[minute] += 1
            hour.collides = max(hour.collides, minutes[minute])
        for each in schedule.occurrences:
            if each.kind == "missed" and first.timestamp() <= each.at < end.timestamp():
                at = datetime.fromtimestamp(each.at, zone)
                hours[at.date(), at.hour].missed.append(f"{at:%H:%M} {schedule.name}")
    days = [first + timedelta(days=each) for each in range(DAYS)]
    return Week(
        days=[(day, [hours[day.date(), hour] for hour in range(24)]) for day in days], often=often
    )
