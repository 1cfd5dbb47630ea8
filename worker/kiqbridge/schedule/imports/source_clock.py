"""When the programs that schedules are imported from fire, clock changes included: the old side of a comparison.

Read by crontab.py, and placed apart from cron.py, so that a fault of either shows. A day without a change of the
clocks is its wall-clock minutes; on another day each minute of elapsed time is looked at, as the program lives
through it.

- cron: as Debian's cron(8), "Notes" says. After the clocks skipped up to three hours, what was due in them at
  a fixed time runs at once; when they go back by up to three hours, such a line does not run again. A line
  whose minute or hour begins with `*` runs by the new time in both cases.
- fugit (sidekiq-cron, sidekiq-scheduler): what is skipped is not made up for, what comes twice runs twice.
  Observed of fugit 1.5.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import ON_THE_MINUTE, Cron
from kiqbridge.schedule.cron_fields import CronFields, ExpressionError
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.imports.record import Dialect
from kiqbridge.schedule.sidekiq_cron import parse_sidekiq_cron

_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line as its program reads it; `is_wild`: the minute or the hour begins with `*`."""

    zone: ZoneInfo
    fields: CronFields
    dialect: Dialect
    is_wild: bool

    def matches_day(self, day: date) -> bool:
        return self.fields.is_due_on(day.year, day.month, day.day)

    def matches(self, wall: datetime) -> bool:
        is_minute = wall.minute in self.fields.minutes and wall.hour in self.fields.hours
        return is_minute and self.matches_day(wall.date())


def source_instants(
    text: str, timezone: str, dialect: Dialect, start: datetime, end: datetime
) -> list[datetime]:
    """Instants with start < t <= end at which the program fires, in UTC, ascending.

    An instant stands as often in it as the program fires then.

    Args:
        text: the fields.
        timezone: in which they are read.
        dialect: whose rules.
        start, end: aware.

    Raises:
        ExpressionError: it is no line of fields without seconds.
    """
    parsed = (parse_crontab if dialect == "cron" else parse_sidekiq_cron)(text, timezone)
    if not isinstance(parsed, Cron) or parsed.seconds != ON_THE_MINUTE:
        raise ExpressionError(f"{text!r} is no line of five fields")
    line = _Line(
        zone=ZoneInfo(parsed.timezone),
        fields=parsed.fields,
        dialect=dialect,
        is_wild=any(word.startswith("*") for word in text.split()[:2]),
    )
    found: list[datetime] = []
    day = start.astimezone(line.zone).date() - _DAY
    last = end.astimezone(line.zone).date() + _DAY
    while day <= last:
        if line.matches_day(day) or _turns(day, line.zone):
            found.extend(_of_day(day, line))
        day += _DAY
    return sorted(each for each in found if start < each <= end)


def _turns(day: date, zone: ZoneInfo) -> bool:
    """Whether the clocks turn on this day or just at its ends."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (midnight - _DAY / 4).utcoffset() != (midnight + _DAY * 1.25).utcoffset()


def _of_day(day: date, line: _Line) -> Iterator[datetime]:
    if _turns(day, line.zone):
        yield from _minute_by_minute(day, line)
        return
    midnight = datetime(day.year, day.month, day.day, tzinfo=line.zone).astimezone(UTC)
    for hour in line.fields.hours:
        for minute in line.fields.minutes:
            yield midnight + timedelta(hours=hour, minutes=minute)


def _minute_by_minute(day: date, line: _Line) -> Iterator[datetime]:
    """Lives through the day, in steps of elapsed time."""
    now = datetime(day.year, day.month, day.day, tzinfo=line.zone).astimezone(UTC) - _DAY / 4
    before = now.astimezone(line.zone).replace(tzinfo=None)
    while True:
        now += _MINUTE
        wall = now.astimezone(line.zone)
        naive = wall.replace(tzinfo=None)
        if naive.date() > day:
            return
        if line.dialect == "cron" and not line.is_wild:
            skipped = before + _MINUTE
            while skipped < naive:  # the clocks went forward over it
                if skipped.date() == day and line.matches(skipped):
                    yield now
                skipped += _MINUTE
        comes_again = wall.fold == 1 and not line.is_wild
        runs_again = line.dialect == "fugit" or not comes_again
        if naive.date() == day and runs_again and line.matches(wall):
            yield now
        before = naive
