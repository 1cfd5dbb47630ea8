"""The EventBridge expressions that are due when a schedule of another form is.

`eventbridge_expressions` writes a schedule as rules of which no two are ever due in the same minute, so that
one job is enqueued for each occurrence:

1. Minutes, hours and months are the same in all dialects.
2. EventBridge takes one of the two day fields, so each rule is about dates or about weekdays.
3. Where a crontab line means the days of either field (`0 0 1,15 * 1`), the days that are in both are left
   to the rules about weekdays; those about dates name the months and years in which they are free.
4. What EventBridge cannot say (seconds, days that must be in both fields, the last day but one) is refused
   with its reason, and so is what would take more than `MOST_RULES` rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import At, Rate, ScheduleExpression
from kiqbridge.schedule.cron_fields import (
    FIRST_YEAR,
    LAST_YEAR,
    WEEKDAYS,
    CronFields,
    ExpressionError,
    weekdays_of_month,
)
from kiqbridge.schedule.cron_seconds import CronSeconds
from kiqbridge.schedule.day_fields import EVERY_WEEKDAY, DayFields

MOST_RULES: Final = 16
"""As many rules as one schedule may become: both day fields need one for each kind of year, of which there are
14, and one for the weekdays."""

LONGEST_TEXT: Final = 256
"""Characters that ScheduleExpression may have (API_CreateSchedule)."""

_FEWEST_DAYS, _MOST_DAYS = 28, 31
_WEEKS: Final = tuple(tuple(range(first, min(first + 7, 32))) for first in (1, 8, 15, 22, 29))
_HINT: Final = "keep it as a dynamic schedule"
_DYNAMIC_ONLY: Final = f"EventBridge cannot say it; {_HINT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBridgeRule:
    """What a schedule of AWS needs to be due: ScheduleExpression, its time zone, StartDate and EndDate."""

    expression: str
    timezone: str
    start: datetime | None
    end: datetime | None


def eventbridge_expressions(
    parsed: ScheduleExpression, *, first_year: int = FIRST_YEAR
) -> list[EventBridgeRule]:
    """The rules that are due when `parsed` is, and never two in the same minute.

    Args:
        parsed: of any form.
        first_year: occurrences before it may be left out, which makes the rules shorter that name years.

    Raises:
        ExpressionError: EventBridge cannot say it; with the reason, and what to do instead.
    """
    try:
        texts = list(_texts(parsed, first_year))
    except ExpressionError as error:
        raise ExpressionError(f"schedule expression {parsed.text!r}: {error}") from None
    bounds = parsed.bounds
    return [
        EventBridgeRule(
            expression=text, timezone=parsed.timezone, start=bounds.start, end=bounds.end
        )
        for text in texts
    ]


def _texts(parsed: ScheduleExpression, first_year: int) -> Iterator[str]:
    if isinstance(parsed, Rate):
        yield _rate(parsed.period_s)
    elif isinstance(parsed, At):
        yield _at(parsed)
    elif isinstance(parsed, CronSeconds):
        raise ExpressionError(f"seconds: it is due within a minute; {_DYNAMIC_ONLY}")
    elif isinstance(parsed.fields.day_rules[0], DayFields):
        yield from _crons(parsed.fields, parsed.fields.day_rules[0], first_year)
    else:
        yield parsed.text.strip()  # EventBridge's already


def _rate(period_s: int) -> str:
    if period_s % 60:
        raise ExpressionError(
            f"seconds: a rate of {period_s} seconds is no number of whole minutes; {_DYNAMIC_ONLY}"
        )
    units = (("day", 86_400), ("hour", 3_600), ("minute", 60))
    unit, seconds = next(each for each in units if period_s % each[1] == 0)
    count = period_s // seconds
    return f"rate({count} {unit}{'' if count == 1 else 's'})"


def _at(parsed: At) -> str:
    if parsed.moment is None:
        raise ExpressionError(
            f"at: the clocks of {parsed.timezone} skip this time, so it is never due; write another one"
        )
    wall = parsed.moment.astimezone(ZoneInfo(parsed.timezone))
    if wall.fold:
        raise ExpressionError(
            f"at: the clocks of {parsed.timezone} show this time twice, and the second one is meant; write it"
            " in UTC"
        )
    if wall.microsecond:
        raise ExpressionError(f"at: fractions of a second: {_DYNAMIC_ONLY}")
    return f"at({wall:%Y-%m-%dT%H:%M:%S})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Days:
    """What one rule says of days; months or years None = those of the schedule."""

    day_of_month: str = "?"
    day_of_week: str = "?"
    months: tuple[int, ...] | None = None
    years: tuple[int, ...] | None = None


def _crons(fields: CronFields, days: DayFields, first_year: int) -> Iterator[str]:
    minutes = _listed(fields.minutes, 0, 59)
    hours = _listed(fields.hours, 0, 23)
    texts = [
        text
        for rule in _days(days, fields.months, first_year)
        for text in _fitting(f"{minutes} {hours}", rule, fields.months)
    ]
    if len(texts) > MOST_RULES:
        raise ExpressionError(
            f"day of month and day of week: it takes {len(texts)} rules to be due on the days of either field"
            f" and never twice, more than {MOST_RULES}; {_HINT}"
        )
    yield from texts


def _fitting(time_of_day: str, rule: _Days, all_months: Sequence[int]) -> Iterator[str]:
    """The rule as one expression, or as several with a part of the years each if it is too long."""
    months = _listed(rule.months or all_months, 1, 12)
    years = "*" if rule.years is None else _listed(rule.years, FIRST_YEAR, LAST_YEAR)
    text = f"cron({time_of_day} {rule.day_of_month} {months} {rule.day_of_week} {years})"
    if len(text) <= LONGEST_TEXT:
        yield text
    elif rule.years is not None and len(rule.years) > 1:
        half = len(rule.years) // 2
        yield from _fitting(time_of_day, replace(rule, years=rule.years[:half]), all_months)
        yield from _fitting(time_of_day, replace(rule, years=rule.years[half:]), all_months)
    else:
        raise ExpressionError(
            f"it becomes an expression of {len(text)} characters, and EventBridge takes {LONGEST_TEXT};"
            f" {_HINT}"
        )


def _days(days: DayFields, months: Sequence[int], first_year: int) -> Iterator[_Days]:
    if 1 in days.from_end:  # a 31st is always the last day
        days = replace(days, dates=tuple(day for day in days.dates if day < _MOST_DAYS))
    all_dates = len(days.dates) + len(days.from_end) >= _MOST_DAYS
    all_weekdays = days.weekdays == EVERY_WEEKDAY
    if days.joined == "either":
        if all_dates or all_weekdays:
            yield _Days(day_of_month="*")
        else:
            yield from _either(days, months, first_year)
    elif all_weekdays:
        yield from _dates(days)
    elif all_dates:
        yield from _weekdays(days)
    else:
        yield from _both(days)


def _dates(days: DayFields) -> Iterator[_Days]:
    if not days.from_end:
        yield _Days(day_of_month=_listed(days.dates, 1, 31))
        return
    _check_last(days)
    yield _Days(day_of_month="L")
    if days.dates:
        yield _Days(day_of_month=_listed(days.dates, 1, 31))


def _check_last(days: DayFields) -> None:
    if days.from_end and days.from_end != (1,):
        last = max(days.from_end)
        raise ExpressionError(f"day of month: '-{last}' counts from the end; {_DYNAMIC_ONLY}")
    if days.from_end and any(day >= _FEWEST_DAYS for day in days.dates):
        raise ExpressionError(
            f"day of month: {days.dates[-1]} and the last day may be the same, so that two rules would be due;"
            f" {_HINT}"
        )


def _weekdays(days: DayFields) -> Iterator[_Days]:
    """One rule for whole weekdays, and one for each n-th one, of which EventBridge takes one a rule."""
    if days.weekdays:
        yield _Days(day_of_week=_weekday_names(days.weekdays))
    nth = {(weekday, number) for weekday, number in days.nth if weekday not in days.weekdays}
    for weekday, number in sorted(nth):
        if number < -1:
            raise ExpressionError(
                f"day of week: '{WEEKDAYS[weekday - 1]}#{number}' counts from the end; {_DYNAMIC_ONLY}"
            )
        if number == -1:
            # The last one is the fourth or the fifth.
            if (weekday, 4) in nth:
                yield _Days(day_of_week=f"{WEEKDAYS[weekday - 1]}#5")
            else:
                yield _Days(day_of_week=f"{WEEKDAYS[weekday - 1]}L")
        elif number != 5 or (weekday, -1) not in nth:  # noqa: PLR2004 - a fifth one is the last
            yield _Days(day_of_week=f"{WEEKDAYS[weekday - 1]}#{number}")


def _both(days: DayFields) -> Iterator[_Days]:
    weeks = _whole_weeks(days)
    if weeks is None or days.nth:
        raise ExpressionError(
            "day of month and day of week: a day must be in both fields, and EventBridge takes one of them;"
            f" {_HINT}"
        )
    for weekday in days.weekdays:
        for week in weeks:
            yield _Days(day_of_week=f"{WEEKDAYS[weekday - 1]}#{week}")


def _whole_weeks(days: DayFields) -> tuple[int, ...] | None:
    """The numbers n of `#n` if the dates are whole weeks counted from the first, such as 8-14; else None."""
    if days.from_end:
        return None
    weeks = tuple(n for n, week in enumerate(_WEEKS, start=1) if set(week) <= set(days.dates))
    covered = {day for n in weeks for day in _WEEKS[n - 1]}
    return weeks if covered == set(days.dates) else None


def _either(days: DayFields, months: Sequence[int], first_year: int) -> Iterator[_Days]:
    weeks = _whole_weeks(days)
    if weeks is not None and not days.nth:
        yield _Days(day_of_month=_listed(days.dates, 1, 31))
        yield from _both(replace(days, dates=_dates_of_other_weeks(weeks)))
        return
    yield from _weekdays(days)
    _check_last(days)
    free = {str(day): _free_months(days, day, months, first_year) for day in days.dates}
    if days.from_end:
        free["L"] = _free_months(days, None, months, first_year)
    yield from _free_rules(free)


def _dates_of_other_weeks(weeks: Sequence[int]) -> tuple[int, ...]:
    return tuple(day for n, week in enumerate(_WEEKS, start=1) if n not in weeks for day in week)


def _free_months(
    days: DayFields, day: int | None, months: Sequence[int], first_year: int
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Months → the years in which just they have this date (None: the last) outside of the weekday field."""
    found: dict[tuple[int, ...], list[int]] = {}
    for year in range(first_year, LAST_YEAR + 1):
        free = []
        for month in months:
            weekdays = weekdays_of_month(year, month)
            date = len(weekdays) if day is None else day
            if date <= len(weekdays) and date not in days.by_weekday(weekdays):
                free.append(month)
        if free:
            found.setdefault(tuple(free), []).append(year)
    return {free: tuple(years) for free, years in found.items()}


def _free_rules(free: Mapping[str, Mapping[tuple[int, ...], tuple[int, ...]]]) -> Iterator[_Days]:
    """Dates of the same months and years share a rule."""
    dates: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for day, by_months in free.items():
        for months, years in by_months.items():
            # The last day has rules of its own, as in _dates.
            dates.setdefault((months, years), []).append(day)
    for (months, years), days in dates.items():
        plain = tuple(int(day) for day in days if day != "L")
        texts = [_listed(plain, 1, 31)] if plain else []
        for text in [*texts, *(["L"] if "L" in days else [])]:
            yield _Days(day_of_month=text, months=months, years=years)


def _weekday_names(weekdays: Sequence[int]) -> str:
    parts = []
    for run in _runs(weekdays, 1):
        names = [WEEKDAYS[weekday - 1] for weekday in run]
        parts += [f"{names[0]}-{names[-1]}"] if len(run) > 2 else names  # noqa: PLR2004 - shorter as a list
    return ",".join(parts)


def _listed(values: Sequence[int], low: int, high: int) -> str:
    """Sorted values as a field has them: `*`, `*/5`, `8-18`, `9-17/2`, `1,15`, `1-5,10`."""
    if len(values) == high - low + 1:
        return "*"
    step = values[1] - values[0] if len(values) > 1 else 1
    if len(values) > 2 and step > 1 and list(values) == [*range(values[0], values[-1] + 1, step)]:  # noqa: PLR2004 - shorter as a list
        if values[-1] + step <= high:
            return f"{values[0]}-{values[-1]}/{step}"
        return f"*/{step}" if values[0] == low else f"{values[0]}/{step}"
    parts: list[str] = []
    for run in _runs(values, 1):
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)  # noqa: PLR2004 - shorter as a list
    return ",".join(parts)


def _runs(values: Sequence[int], step: int) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + step:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs
