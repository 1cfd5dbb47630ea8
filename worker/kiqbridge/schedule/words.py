"""An expression in words, for people: `every 5 minutes`, `Mon to Fri at 08:30`; only where a few words say all of it."""

import calendar
from typing import Final

from kiqbridge.schedule.cron import Cron, Rate, ScheduleExpression

_UNITS: Final = ((604_800, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_YEAR: Final = 2027
"""Any year that no expression of today ends before."""
_MOST_TIMES: Final = 4


def words_of(when: ScheduleExpression) -> str:
    """The words; empty if it takes more of them."""
    if isinstance(when, Rate):
        length, unit = next(each for each in _UNITS if when.period_s % each[0] == 0)
        count = when.period_s // length
        return f"every {unit}" if count == 1 else f"every {count} {unit}s"
    if not isinstance(when, Cron) or when.seconds != (0,) or _YEAR not in when.fields.years:
        return ""
    days, times = _days(when), _times(when)
    if not (days and times):
        return ""
    return times if days == "every day" and times.startswith("every") else f"{days} {times}"


def _times(when: Cron) -> str:
    minutes, hours = when.fields.minutes, when.fields.hours
    if len(hours) == 24:  # noqa: PLR2004 - all of them
        step = 60 // len(minutes)
        if minutes == (0,):
            return "every hour"
        if minutes == tuple(range(0, 60, step)):
            return "every minute" if step == 1 else f"every {step} minutes"
        return f"every hour at minute {minutes[0]}" if len(minutes) == 1 else ""
    if len(hours) * len(minutes) > _MOST_TIMES:
        return ""
    return "at " + ", ".join(f"{hour:02}:{minute:02}" for hour in hours for minute in minutes)


def _days(when: Cron) -> str:
    """What the days of a year have in common."""
    fields = when.fields
    if len(fields.months) < 12:  # noqa: PLR2004 - of a year
        return ""
    found = {month: fields.days_of(_YEAR, month) for month in fields.months}
    lengths = {month: calendar.monthrange(_YEAR, month)[1] for month in found}
    if all(len(found[month]) == lengths[month] for month in found):
        return "every day"
    if all(days == (lengths[month],) for month, days in found.items()):
        return "on the last day of the month"
    names = {calendar.weekday(_YEAR, month, day) for month, days in found.items() for day in days}
    if len(names) < 7 and all(  # noqa: PLR2004 - of a week
        (calendar.weekday(_YEAR, month, day) in names) == (day in days)
        for month, days in found.items()
        for day in range(1, lengths[month] + 1)
    ):
        short = [calendar.day_abbr[each] for each in sorted(names)]
        together = sorted(names) == list(range(min(names), max(names) + 1))
        return f"{short[0]} to {short[-1]}" if together and len(short) > 2 else ", ".join(short)  # noqa: PLR2004
    if len(set(found.values())) == 1 and len(found[1]) == 1:
        return f"on day {found[1][0]} of the month"
    return ""
