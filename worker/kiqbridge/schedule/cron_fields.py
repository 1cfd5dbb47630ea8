"""The six fields of an EventBridge cron expression: what they may contain, and the minutes that they match.

The dialect is AWS': minutes, hours, day-of-month, month, day-of-week, year; weekdays 1-7 = SUN-SAT;
exactly one `?` in the two day fields; `L`, `W` and `#` in them.
"""

import calendar
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import TypeAlias, TypeVar

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.records import dataclass

FIRST_YEAR, LAST_YEAR = 1970, 2199
_MAX_WEEKS = 5  # the n of `6#n`: a weekday comes four or five times a month

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_Read = TypeVar("_Read")
# Picks days that are due from a month, given as the weekdays (1-7 = SUN-SAT) of its days.
DayRule: TypeAlias = Callable[[Sequence[int]], Sequence[int]]


class ExpressionError(ConfigError):
    """A schedule expression, its time zone or a bound is wrong, or a question has no answer.

    Attributes:
        item: the part of a field that is wrong; None if it is no part of a field.
    """

    item: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What six cron fields allow; sorted, so that a walk can skip years, months and days whole."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    # Compared by the expression's text: two equal rules are still two functions.
    day_rules: tuple[DayRule, ...] = field(compare=False)
    months: tuple[int, ...]
    years: tuple[int, ...]
    # By year and month: at most one entry for each month of the calendar.
    _days: dict[tuple[int, int], tuple[int, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def walk(
        self, origin: datetime, *, backwards: bool = False
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """(year, month, day, hour, minute) from the minute of `origin` on."""
        cut = _up_to if backwards else _from
        first = origin.year, origin.month, origin.day, origin.hour, origin.minute
        for year in cut(self.years, first[0]):
            is_year = year == first[0]
            for month in cut(self.months, first[1] if is_year else None):
                is_month = is_year and month == first[1]
                for day in cut(self.days_of(year, month), first[2] if is_month else None):
                    is_day = is_month and day == first[2]
                    for hour in cut(self.hours, first[3] if is_day else None):
                        is_hour = is_day and hour == first[3]
                        for minute in cut(self.minutes, first[4] if is_hour else None):
                            yield year, month, day, hour, minute

    def days_of(self, year: int, month: int) -> tuple[int, ...]:
        """The days of a month that are allowed."""
        days = self._days.get((year, month))
        if days is None:
            weekdays = weekdays_of_month(year, month)
            days = tuple(sorted({day for rule in self.day_rules for day in rule(weekdays)}))
            self._days[year, month] = days
        return days


def _from(values: tuple[int, ...], first: int | None) -> Iterable[int]:
    return values if first is None else values[bisect_left(values, first) :]


def _up_to(values: tuple[int, ...], last: int | None) -> Iterable[int]:
    return reversed(values if last is None else values[: bisect_right(values, last)])


def parse_cron_fields(body: str, place: int = 1) -> CronFields:
    """Parse what stands between the parentheses of `cron(...)`.

    Args:
        body: six fields.
        place: where it begins in the expression, counted from 1, to say where an error is.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    words = [(word[0].upper(), place + word.start()) for word in re.finditer(r"\S+", body)]
    if len(words) != 6:  # noqa: PLR2004 - the six names are in the message
        crontab = ", as a crontab line has" if len(words) == 5 else ""  # noqa: PLR2004 - as above
        raise ExpressionError(
            f"has {len(words)} fields{crontab}; EventBridge wants 6: minutes hours day-of-month"
            " month day-of-week year, with ? in one of the day fields, such as cron(0 12 * * ? *) for noon each day"
        )
    minutes, hours, day_of_month, month, day_of_week, year = words
    return CronFields(
        minutes=values_at(minutes, lambda text: _parse_values(_MINUTES, text)),
        hours=values_at(hours, lambda text: _parse_values(_HOURS, text)),
        day_rules=_parse_day_rules(day_of_month, day_of_week),
        months=values_at(month, lambda text: _parse_values(_MONTH, text)),
        years=values_at(year, lambda text: _parse_values(_YEAR, text)),
    )


def values_at(word: tuple[str, int], read: Callable[[str], _Read]) -> _Read:
    """What `read` makes of a field; its error says at which character of the expression it is.

    Args:
        word: the field, and where it begins in the expression, counted from 1.
        read: refuses an item as `FieldSpec.refuse` does.
    """
    text, place = word
    try:
        return read(text)
    except ExpressionError as error:
        if error.item is None:
            raise
        items = text.split(",")
        before = items[: items.index(error.item)] if error.item in items else []
        character = place + sum(len(each) + 1 for each in before)
        raise ExpressionError(f"{error} (at character {character})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """A field: its name as its dialect writes it, and the values it may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    also: str = ""
    forms: str = "ranges a-b, steps a/n and lists a,b of them, and *"
    wraps: bool = True
    """Whether a range may run over its end, as 22-2."""

    def refuse(self, value: str, problem: str) -> ExpressionError:
        """The error to raise for `value`, an item of this field."""
        error = ExpressionError(
            f"{self.name}: {value!r} {problem}; allowed are {self.low}-{self.high}{self.also}, {self.forms}"
        )
        error.item = value
        return error

    def number(self, text: str, item: str) -> int:
        """The value that a number or a name stands for."""
        named = text in self.names
        value = self.low + self.names.index(text) if named else whole_number(text)
        if value is None or not self.low <= value <= self.high:
            raise self.refuse(item, "cannot be read" if value is None else "is out of range")
        return value


_SUNDAY, _SATURDAY = 1, 7
_MINUTES = FieldSpec(name="minutes", low=0, high=59)
_HOURS = FieldSpec(name="hours", low=0, high=23)
_DAY_OF_MONTH = FieldSpec(name="day-of-month", low=1, high=31, also=", L, LW, 15W, ?")
_MONTH = FieldSpec(name="month", low=1, high=12, names=MONTHS, also=" or JAN-DEC")
_DAY_OF_WEEK = FieldSpec(
    name="day-of-week", low=1, high=7, names=WEEKDAYS, also=" or SUN-SAT, L, 6L, 6#2, ?"
)
_YEAR = FieldSpec(name="year", low=FIRST_YEAR, high=LAST_YEAR, wraps=False)


def _parse_values(spec: FieldSpec, text: str) -> tuple[int, ...]:
    return tuple(sorted({n for item in text.split(",") for n in _parse_item(spec, item)}))


def _parse_item(spec: FieldSpec, item: str) -> Sequence[int]:
    """The values of `*`, `7` or `2-5`; with a step `/n` every n-th, from `7` on up to the end."""
    base, slash, step_text = item.partition("/")
    step = whole_number(step_text) if slash else 1
    if not step or step > spec.high:
        raise spec.refuse(item, f"has a step which is not a whole number from 1 to {spec.high}")
    if base == "*":
        return range(spec.low, spec.high + 1, step)
    first_text, dash, last_text = base.partition("-")
    first = spec.number(first_text, item)
    if not dash:
        return range(first, spec.high + 1, step) if slash else (first,)
    last = spec.number(last_text, item)
    if first <= last:
        return range(first, last + 1, step)
    if not spec.wraps:
        raise spec.refuse(item, "runs backwards, and years do not repeat")
    return [*range(first, spec.high + 1), *range(spec.low, last + 1)][::step]


def _parse_day_rules(
    day_of_month: tuple[str, int], day_of_week: tuple[str, int]
) -> tuple[DayRule, ...]:
    """EventBridge: day-of-month and day-of-week exclude each other, so exactly one is `?`."""
    if (day_of_month[0] == "?") == (day_of_week[0] == "?"):
        raise ExpressionError(
            f"day-of-month {day_of_month[0]!r} and day-of-week {day_of_week[0]!r}: exactly one of them"
            " has to be ?; write ? in the one that does not matter (at characters"
            f" {day_of_month[1]} and {day_of_week[1]})"
        )
    if day_of_week[0] == "?":
        return values_at(day_of_month, _parse_days_of_month)
    return values_at(day_of_week, _parse_days_of_week)


def _parse_days_of_month(text: str) -> tuple[DayRule, ...]:
    return tuple(_parse_day_of_month(item) for item in text.split(","))


def _parse_days_of_week(text: str) -> tuple[DayRule, ...]:
    if "#" in text and "," in text:
        raise _DAY_OF_WEEK.refuse(
            text, "has a # in a list, and AWS takes nothing beside it; make it two schedules"
        )
    return tuple(_parse_day_of_week(item) for item in text.split(","))


def _parse_day_of_month(item: str) -> DayRule:
    if item == "L":
        return lambda month: [len(month)]
    if item == "LW":
        return lambda month: _nearest_workday(len(month), month)
    if item.endswith("W"):
        day = _DAY_OF_MONTH.number(item[:-1], item)
        return lambda month: _nearest_workday(day, month)
    days = _parse_item(_DAY_OF_MONTH, item)
    return lambda month: [day for day in days if day <= len(month)]


def _parse_day_of_week(item: str) -> DayRule:
    if item == "L":
        item = "SAT"
    if item.endswith("L"):
        last = _DAY_OF_WEEK.number(item[:-1], item)
        return lambda month: days_falling_on((last,), month)[-1:]
    if "#" not in item:
        weekdays = _parse_item(_DAY_OF_WEEK, item)
        return lambda month: days_falling_on(weekdays, month)
    weekday_text, _, week_text = item.partition("#")
    weekday, week = _DAY_OF_WEEK.number(weekday_text, item), whole_number(week_text)
    if not week or week > _MAX_WEEKS:
        raise _DAY_OF_WEEK.refuse(item, f"asks for a week which is not 1 to {_MAX_WEEKS}")
    return lambda month: days_falling_on((weekday,), month)[week - 1 : week]


def weekdays_of_month(year: int, month: int) -> list[int]:
    """The weekdays, 1-7 = SUN-SAT, of the days of a month."""
    first, length = calendar.monthrange(year, month)  # first: 0 = Monday
    return [(first + 1 + day) % 7 + 1 for day in range(length)]


def days_falling_on(weekdays: Sequence[int], month: Sequence[int]) -> list[int]:
    """The days of a month, given as the weekdays of its days, that fall on one of these weekdays."""
    return [day for day, weekday in enumerate(month, start=1) if weekday in weekdays]


def _nearest_workday(day: int, month: Sequence[int]) -> Sequence[int]:
    """Monday to Friday next to `day`, never in another month; nothing if the month is shorter."""
    if day > len(month):
        return ()
    if month[day - 1] == _SATURDAY:
        return (day - 1,) if day > 1 else (day + 2,)
    if month[day - 1] == _SUNDAY:
        return (day + 1,) if day < len(month) else (day - 2,)
    return (day,)


def whole_number(text: str) -> int | None:
    """A decimal number of at most nine ASCII digits; None for any other text."""
    # int() alone would take signs, underscores and the digits of other scripts.
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None
