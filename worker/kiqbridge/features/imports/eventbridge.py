"""The EventBridge expressions that are due when a schedule of another form is.

`eventbridge_expressions` writes a schedule as one rule or several. Rules of one schedule share the name of
their ticks, so that one job is enqueued for an instant at which two of them are due:

1. Minutes, hours and months are the same in all dialects.
2. EventBridge takes one of the two day fields, so each rule is about dates or about weekdays.
3. Where a crontab line means the days of either field (`0 0 1,15 * 1`), it becomes rules about dates and
   rules about weekdays.
4. What EventBridge cannot say (seconds, days that must be in both fields, the last day but one) is refused
   with its reason, and so is what would take more than `MOST_RULES` rules.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import ON_THE_MINUTE, At, Rate, ScheduleExpression, Union
from kiqbridge.schedule.cron_fields import WEEKDAYS, CronFields, ExpressionError
from kiqbridge.schedule.crontab import EVERY_WEEKDAY, DayFields
from kiqbridge.schedule.expression import rate_text

MOST_RULES: Final = 16
"""As many rules as one schedule may become: EventBridge takes one n-th weekday in each."""

LONGEST_TEXT: Final = 256
"""Characters that ScheduleExpression may have (API_CreateSchedule)."""

_MOST_DAYS: Final = 31
_WEEKS: Final = tuple(tuple(range(first, min(first + 7, 32))) for first in (1, 8, 15, 22, 29))
_HINT: Final = "keep it as a dynamic schedule"
_DYNAMIC_ONLY: Final = f"EventBridge cannot say it; {_HINT}"


def eventbridge_expressions(parsed: ScheduleExpression) -> list[str]:
    """The expressions, in its zone and bounds, of which at least one is due whenever `parsed` is; two may be.

    Args:
        parsed: of any form.

    Raises:
        ExpressionError: EventBridge cannot say it; with the reason, and what to do instead.
    """
    try:
        return list(_texts(parsed))
    except ExpressionError as error:
        raise ExpressionError(f"schedule expression {parsed.text!r}: {error}") from None


def _texts(parsed: ScheduleExpression) -> Iterator[str]:
    if isinstance(parsed, Rate):
        if parsed.period_s % 60:
            raise ExpressionError(
                f"seconds: a rate of {parsed.period_s} seconds is no number of whole minutes; {_DYNAMIC_ONLY}"
            )
        yield rate_text(parsed.period_s)
    elif isinstance(parsed, At):
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
        yield f"at({wall:%Y-%m-%dT%H:%M:%S})"
    elif isinstance(parsed, Union):
        yield from dict.fromkeys(text for part in parsed.parts for text in _texts(part))
    elif parsed.seconds != ON_THE_MINUTE:
        raise ExpressionError(f"seconds: it is due within a minute; {_DYNAMIC_ONLY}")
    elif isinstance(parsed.fields.day_rules[0], DayFields):
        yield from _crons(parsed.fields, parsed.fields.day_rules[0])
    else:
        yield parsed.text.strip()  # EventBridge's already


def _crons(fields: CronFields, days: DayFields) -> Iterator[str]:
    minutes = _listed(fields.minutes, 0, 59)
    hours = _listed(fields.hours, 0, 23)
    months = _listed(fields.months, 1, 12)
    texts = [
        f"cron({minutes} {hours} {day_of_month} {months} {day_of_week} *)"
        for day_of_month, day_of_week in _days(days)
    ]
    if len(texts) > MOST_RULES:
        raise ExpressionError(f"it takes {len(texts)} rules, more than {MOST_RULES}; {_HINT}")
    longest = max(map(len, texts))
    if longest > LONGEST_TEXT:
        raise ExpressionError(
            f"it becomes an expression of {longest} characters, and EventBridge takes {LONGEST_TEXT}; {_HINT}"
        )
    yield from texts


def _days(days: DayFields) -> Iterator[tuple[str, str]]:
    """What each rule says of days: day of month and day of week."""
    all_dates = len({*days.dates, *((_MOST_DAYS,) if 1 in days.from_end else ())}) >= _MOST_DAYS
    all_weekdays = days.weekdays == EVERY_WEEKDAY
    if days.joined == "either":
        if all_dates or all_weekdays:
            yield "*", "?"
        else:
            yield from _weekdays(days)
            yield from _dates(days)
    elif all_weekdays:
        yield from _dates(days)
    elif all_dates:
        yield from _weekdays(days)
    else:
        weeks = _whole_weeks(days)
        if weeks is None or days.nth:
            raise ExpressionError(
                "day of month and day of week: a day must be in both fields, and EventBridge takes one of them;"
                f" {_HINT}"
            )
        for weekday in days.weekdays:
            for week in weeks:
                yield "?", f"{WEEKDAYS[weekday - 1]}#{week}"


def _dates(days: DayFields) -> Iterator[tuple[str, str]]:
    if days.from_end and days.from_end != (1,):
        last = max(days.from_end)
        raise ExpressionError(f"day of month: '-{last}' counts from the end; {_DYNAMIC_ONLY}")
    if days.from_end:
        yield "L", "?"
    if days.dates:
        yield _listed(days.dates, 1, 31), "?"


def _weekdays(days: DayFields) -> Iterator[tuple[str, str]]:
    """One rule for whole weekdays, and one for each n-th one, of which EventBridge takes one a rule."""
    if days.weekdays:
        yield "?", _runs([WEEKDAYS[each - 1] for each in days.weekdays], days.weekdays)
    nth = {(weekday, number) for weekday, number in days.nth if weekday not in days.weekdays}
    for weekday, number in sorted(nth):
        if number < -1:
            raise ExpressionError(
                f"day of week: '{WEEKDAYS[weekday - 1]}#{number}' counts from the end; {_DYNAMIC_ONLY}"
            )
        place = "L" if number == -1 else f"#{number}"
        yield "?", f"{WEEKDAYS[weekday - 1]}{place}"


def _whole_weeks(days: DayFields) -> tuple[int, ...] | None:
    """The numbers n of `#n` if the dates are whole weeks counted from the first, such as 8-14; else None."""
    if days.from_end:
        return None
    weeks = tuple(n for n, week in enumerate(_WEEKS, start=1) if set(week) <= set(days.dates))
    covered = {day for n in weeks for day in _WEEKS[n - 1]}
    return weeks if covered == set(days.dates) else None


def _listed(values: Sequence[int], low: int, high: int) -> str:
    """Sorted values as a field has them: `*`, `*/5`, `8-18`, `9-17/2`, `1,15`, `1-5,10`."""
    if len(values) == high - low + 1:
        return "*"
    step = values[1] - values[0] if len(values) > 1 else 1
    if len(values) > 2 and step > 1 and list(values) == [*range(values[0], values[-1] + 1, step)]:  # noqa: PLR2004 - shorter as a list
        if values[-1] + step <= high:
            return f"{values[0]}-{values[-1]}/{step}"
        return f"*/{step}" if values[0] == low else f"{values[0]}/{step}"
    return _runs(list(map(str, values)), values)


def _runs(texts: Sequence[str], values: Sequence[int]) -> str:
    """The texts of sorted values as a list, in which three or more that follow each other are a range."""
    runs: list[list[str]] = []
    for place, (text, value) in enumerate(zip(texts, values, strict=True)):
        if place and value == values[place - 1] + 1:
            runs[-1].append(text)
        else:
            runs.append([text])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run)  # noqa: PLR2004 - shorter as a list
        for run in runs
    )
