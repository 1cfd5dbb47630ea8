"""When the programs that schedules are imported from fire, clock changes included: the old side of a comparison.

Written apart from crontab.py, so that a fault in either shows. A day without a change of the clocks is its
wall-clock minutes; on another day each minute of elapsed time is looked at, as the program lives through it.

- cron: as Debian's cron(8), "Notes" says. After the clocks skipped up to three hours, what was due in them at
  a fixed time runs at once; when they go back by up to three hours, such a line does not run again. A line
  whose minute or hour begins with `*` runs by the new time in both cases. With both day fields restricted,
  either is enough; one that begins with `*` leaves it to the other.
- fugit (sidekiq-cron, sidekiq-scheduler): what is skipped is not made up for, what comes twice runs twice.
  Both day fields restricted: either is enough, `*/2` counting as a restriction. Observed of fugit 1.5.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.imports.record import Dialect

_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_WEEKDAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClock:
    """Five crontab fields as their program reads them.

    Attributes:
        text: the five fields.
        timezone: in which they are read.
        dialect: whose rules.
    """

    text: str
    timezone: str
    dialect: Dialect

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """Instants with start < t <= end at which the program fires, in UTC, ascending.

        An instant stands as often in it as the program fires then.

        Raises:
            ValueError: a field is none that this evaluator knows.
        """
        zone = ZoneInfo(self.timezone)
        fields = _Fields.of(self.text, self.dialect)
        found: list[datetime] = []
        day = start.astimezone(zone).date() - _DAY
        last = end.astimezone(zone).date() + _DAY
        while day <= last:
            if fields.matches_day(day) or _turns(day, zone):
                found.extend(_of_day(day, zone, fields, self.dialect))
            day += _DAY
        return sorted(each for each in found if start < each <= end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    minutes: frozenset[int]
    hours: frozenset[int]
    dates: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 = Sunday."""
    is_either: bool
    is_wild: bool
    """The minute or the hour begins with `*`."""

    @classmethod
    def of(cls, text: str, dialect: Dialect) -> "_Fields":
        minute, hour, date_, month, weekday = text.lower().split()
        if dialect == "fugit":
            is_either = date_ != "*" and weekday != "*"
        else:
            is_either = not date_.startswith("*") and not weekday.startswith("*")
        return cls(
            minutes=_values(minute, 0, 59, ()),
            hours=_values(hour, 0, 23, ()),
            dates=_values(date_, 1, 31, ()),
            months=_values(month, 1, 12, _MONTHS),
            weekdays=frozenset(n % 7 for n in _values(weekday, 0, 7, _WEEKDAYS)),
            is_either=is_either,
            is_wild=minute.startswith("*") or hour.startswith("*"),
        )

    def matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date = day.day in self.dates
        by_weekday = day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.is_either else by_date and by_weekday

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and self.matches_day(wall.date())
        )


def _values(text: str, low: int, high: int, names: "list[str] | tuple[()]") -> frozenset[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            begin, end = low, high
        else:
            begin = _number(first, names, low)
            end = _number(last, names, low) if last else begin
        if not low <= begin <= end <= high:
            raise ValueError(f"{item!r} is no range of {low}-{high}")
        found.update(range(begin, end + 1, int(step) if step else 1))
    return frozenset(found)


def _number(text: str, names: "list[str] | tuple[()]", low: int) -> int:
    return names.index(text) + low if text in names else int(text)


def _turns(day: date, zone: ZoneInfo) -> bool:
    """Whether the clocks turn on this day or just at its ends."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (midnight - _DAY / 4).utcoffset() != (midnight + _DAY * 1.25).utcoffset()


def _of_day(day: date, zone: ZoneInfo, fields: _Fields, dialect: Dialect) -> Iterator[datetime]:
    if _turns(day, zone):
        yield from _minute_by_minute(day, zone, fields, dialect)
        return
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    for hour in fields.hours:
        for minute in fields.minutes:
            yield midnight + timedelta(hours=hour, minutes=minute)


def _minute_by_minute(
    day: date, zone: ZoneInfo, fields: _Fields, dialect: Dialect
) -> Iterator[datetime]:
    """Lives through the day, in steps of elapsed time."""
    now = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC) - _DAY / 4
    before = now.astimezone(zone).replace(tzinfo=None)
    while True:
        now += _MINUTE
        wall = now.astimezone(zone)
        naive = wall.replace(tzinfo=None)
        if naive.date() > day:
            return
        if dialect == "cron" and not fields.is_wild:
            skipped = before + _MINUTE
            while skipped < naive:  # the clocks went forward over it
                if skipped.date() == day and fields.matches(skipped):
                    yield now
                skipped += _MINUTE
        comes_again = wall.fold == 1 and not fields.is_wild
        runs_again = dialect == "fugit" or not comes_again
        if naive.date() == day and runs_again and fields.matches(wall):
            yield now
        before = naive
