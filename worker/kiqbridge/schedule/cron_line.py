"""Cron lines as an expression: crontab's five fields, and what sidekiq-cron (fugit) reads beyond them.

1. A field of seconds may stand in front (`*/10 * * * * *`), the name of a zone behind (`0 3 * * * Asia/Tokyo`).
2. Day of month: `L` or `last`, and days counted from the end (`-2`, `-7-L`). Day of week: `mon#2`, `fri#-1`,
   `fri#L`. Ranges may wrap around (`22-2`, `fri-mon`).
3. Which days two day fields mean is read as in crontab.py: either one, but both if one begins with `*`. A `&`
   after a day field asks for both (`0 5 1-7 * 1&`, fugit 1.7). What sidekiq-cron reads otherwise than cron is
   in sidekiq_cron.py.
4. What implementations read differently is refused: a step after one number or after weekdays that wrap around,
   `?`, `W`; so is what counts weeks (`mon%2`).

A crontab line with its command is read by crontab.py.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kiqbridge.schedule.cron import Cron, bounds_of, check_zone
from kiqbridge.schedule.cron_fields import (
    FIRST_YEAR,
    LAST_YEAR,
    MONTHS,
    WEEKDAYS,
    CronFields,
    ExpressionError,
    FieldSpec,
    values_at,
    whole_number,
)
from kiqbridge.schedule.cron_seconds import CronSeconds
from kiqbridge.schedule.crontab import MACROS
from kiqbridge.schedule.day_fields import DayFields

_FORM: Final = "ranges a-b, steps */n or a-b/n, lists a,b of them, and *"
_SECONDS = FieldSpec(name="second", low=0, high=59, forms=_FORM)
_MINUTES = FieldSpec(name="minute", low=0, high=59, forms=_FORM)
_HOURS = FieldSpec(name="hour", low=0, high=23, forms=_FORM)
_DAY_OF_MONTH = FieldSpec(
    name="day of month", low=1, high=31, also=", L, -2 from the end", forms=_FORM
)
_MONTH = FieldSpec(name="month", low=1, high=12, names=MONTHS, also=" or JAN-DEC", forms=_FORM)
_DAY_OF_WEEK = FieldSpec(
    name="day of week",
    low=0,
    high=7,
    names=WEEKDAYS,
    also=" or SUN-SAT, MON#2, FRI#L",
    forms=_FORM,
)
_SUNDAY: Final = 7  # besides 0
_FIELDS: Final = 5
_LAST: Final = ("L", "LAST")
_WEEKS: Final = 5
_YEARS: Final = tuple(range(FIRST_YEAR, LAST_YEAR + 1))
_OFFSET: Final = re.compile(r"[+-][0-9]{1,2}:?[0-9]{2}")
_FROM_END: Final = re.compile(r"-([0-9]{1,2})(?:-(L|LAST|-[0-9]{1,2}))?")

Word = tuple[str, int]
"""A field, and where it begins in the line, counted from 1."""


def parse_cron_line(
    line: str,
    timezone: str = "UTC",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Cron | CronSeconds:
    """Read five fields, six with seconds in front, or a macro; the arguments are those of `parse_crontab`.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    try:
        words, zone = split_line(line, timezone)
        check_zone(zone)
        bounds = bounds_of(start, end)
        seconds: tuple[int, ...] = (0,)
        if len(words) == _FIELDS + 1:
            seconds = values_at(words[0], lambda text: _values(_SECONDS, text))
        fields = _fields(words[-_FIELDS:])
    except ExpressionError as error:
        raise ExpressionError(f"cron line {line!r}: {error}") from None
    if seconds == (0,):
        return Cron(text=line, timezone=zone, bounds=bounds, fields=fields)
    return CronSeconds(text=line, timezone=zone, bounds=bounds, fields=fields, seconds=seconds)


def split_line(line: str, timezone: str) -> tuple[list[Word], str]:
    """The five or six fields of a line, and the zone that it names, else `timezone`.

    Raises:
        ExpressionError: it has more or fewer.
    """
    words = [(word[0], word.start() + 1) for word in re.finditer(r"\S+", line)]
    if words and words[0][0].startswith("CRON_TZ="):
        timezone = words.pop(0)[0].partition("=")[2]
    if words and words[0][0].startswith("@"):
        words[:1] = [(field, words[0][1]) for field in _expanded(words[0][0]).split()]
    if len(words) > _FIELDS and _is_zone(words[-1][0]):
        timezone = words.pop()[0]
    for text, place in words:
        if text == "?":
            raise ExpressionError(
                f"'?' (at character {place}) is EventBridge's; write * here, or EventBridge's six fields as cron(…)"
            )
        if _OFFSET.fullmatch(text):
            raise ExpressionError(
                f"{text!r} (at character {place}) is an offset; write the name of a time zone, such as Etc/GMT-2"
                " for +02:00"
            )
    if len(words) not in (_FIELDS, _FIELDS + 1):
        raise ExpressionError(
            f"has {len(words)} fields; write 5: minute hour day-of-month month day-of-week, such as 0 3 * * *"
            " for three each night, with seconds in front or a time zone behind if they are needed"
        )
    return words, timezone


def _expanded(macro: str) -> str:
    known = {**MACROS, "@noon": "0 12 * * *"}
    if macro.lower() not in known:
        raise ExpressionError(f"{macro!r} is none of {', '.join(known)}")
    return known[macro.lower()]


def _is_zone(word: str) -> bool:
    first = re.split(r"[-,/#%&]", word.upper())[0]
    return word[0].isalpha() and first not in WEEKDAYS


def _fields(words: Sequence[Word]) -> CronFields:
    minutes, hours, day_of_month, month, day_of_week = ((word.upper(), at) for word, at in words)
    return CronFields(
        minutes=values_at(minutes, lambda text: _values(_MINUTES, text)),
        hours=values_at(hours, lambda text: _values(_HOURS, text)),
        day_rules=(_day_fields(day_of_month, day_of_week),),
        months=values_at(month, lambda text: _values(_MONTH, text)),
        years=_YEARS,
    )


def _day_fields(day_of_month: Word, day_of_week: Word) -> DayFields:
    texts = (day_of_month[0], day_of_week[0])
    is_both = any(text.startswith("*") or text.endswith("&") for text in texts)
    dates, from_end = values_at((texts[0].removesuffix("&"), day_of_month[1]), _dates)
    weekdays, nth = values_at((texts[1].removesuffix("&"), day_of_week[1]), _weekdays)
    return DayFields(
        dates=dates,
        from_end=from_end,
        weekdays=weekdays,
        nth=nth,
        joined="both" if is_both else "either",
    )


def _dates(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    dates: set[int] = set()
    from_end: set[int] = set()
    for item in _items(_DAY_OF_MONTH, text):
        if item in _LAST:
            from_end.add(1)
        elif item.startswith("-"):
            from_end.update(_counted(item))
        else:
            dates.update(_item(_DAY_OF_MONTH, item))
    return tuple(sorted(dates)), tuple(sorted(from_end))


def _counted(item: str) -> range:
    """`-2`, and ranges such as `-7-L` and `-7--2`, as days counted from the end."""
    found = _FROM_END.fullmatch(item)
    if found is None:
        raise _DAY_OF_MONTH.refuse(item, "cannot be read")
    first = int(found[1])
    last = first if found[2] is None else 1 if found[2] in _LAST else -int(found[2])
    if not 1 <= last <= first <= _DAY_OF_MONTH.high:
        raise _DAY_OF_MONTH.refuse(item, "is no range of days from the end, such as -7-L")
    return range(last, first + 1)


def _weekdays(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Whole weekdays and n-th ones, 1-7 = SUN-SAT as EventBridge counts them."""
    weekdays: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for item in _items(_DAY_OF_WEEK, text):
        if "%" in item:
            raise _DAY_OF_WEEK.refuse(
                item,
                "counts weeks from 2019-01-01, which only fugit does; enqueue weekly, and decide in the job",
            )
        weekday, hash_sign, number = item.partition("#")
        if hash_sign:
            nth.add((_DAY_OF_WEEK.number(weekday, item) % 7 + 1, _week(number, item)))
        else:
            weekdays.update(value % 7 + 1 for value in _item(_DAY_OF_WEEK, item))
    return tuple(sorted(weekdays)), tuple(sorted(nth))


def _week(text: str, item: str) -> int:
    if text in _LAST:
        return -1
    number = whole_number(text.removeprefix("-"))
    if not number or number > _WEEKS:
        raise _DAY_OF_WEEK.refuse(item, f"asks for a week which is not 1 to {_WEEKS}, or L")
    return -number if text.startswith("-") else number


def _values(spec: FieldSpec, text: str) -> tuple[int, ...]:
    return tuple(sorted({n for item in _items(spec, text) for n in _item(spec, item)}))


def _items(spec: FieldSpec, text: str) -> list[str]:
    items = text.split(",")
    if "*" in items and len(items) > 1:
        raise spec.refuse("*", "stands in a list, which crons read differently (write it alone)")
    return items


def _item(spec: FieldSpec, item: str) -> Sequence[int]:
    """The values of `*`, `7`, `2-5`, `22-2`, `*/n` or `2-5/n`."""
    base, slash, step_text = item.partition("/")
    step = whole_number(step_text) if slash else 1
    if not step:
        raise spec.refuse(item, "has a step which is not a whole number above 0")
    top = _SUNDAY - 1 if spec is _DAY_OF_WEEK else spec.high
    if base == "*":
        return range(spec.low, top + 1, step)
    first_text, dash, last_text = base.partition("-")
    first = spec.number(first_text, item)
    if not dash:
        if slash:
            raise spec.refuse(
                item,
                f"has a step after one number, which crons read differently (write {first}-{top}/{step})",
            )
        return (first,)
    last = spec.number(last_text, item)
    if first <= last:
        return range(first, last + 1, step)
    if spec is _DAY_OF_WEEK:
        first %= _SUNDAY
    if first <= last:
        return range(first, last + 1, step)
    if slash and spec is _DAY_OF_WEEK:
        raise spec.refuse(item, "wraps around with a step, which crons read differently")
    return [*range(first, top + 1), *range(spec.low, last + 1)][::step]
