"""When an EventBridge schedule expression is due: `cron(...)`, `rate(...)` and `at(...)`.

Nothing else checks these texts before a deploy, so `parse` is strict: it refuses what AWS would
refuse, and says which field is wrong and what it may hold. It keeps the rules of the "EventBridge
Scheduler User Guide, Schedule types":

1. A cron expression names minutes of the wall clock in its time zone. It uses its own dialect:
   six fields, weekdays 1-7 = SUN-SAT, exactly one `?` in the two day fields.
2. A wall-clock minute that daylight saving time leaves out is skipped; one that comes twice is due
   once, at its first coming.
3. A rate counts elapsed time from its start date, whatever the clocks do.
"""

from __future__ import annotations

import calendar
import difflib
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from kiqbridge.errors import ConfigError

_FIRST_YEAR, _LAST_YEAR = 1970, 2199
# Two days more than the years themselves, so that no time zone cuts a first or last day short.
_EARLIEST = datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC) - timedelta(days=2)
_LATEST = datetime(_LAST_YEAR + 1, 1, 1, tzinfo=UTC) + timedelta(days=2)
_ZERO = timedelta(0)
_MOST_WEEKS = 5  # the n of `6#n`: a weekday comes four or five times a month

# Picks days that are due from a month, given as the weekdays (1-7 = SUN-SAT) of its days.
DayRule: TypeAlias = Callable[[Sequence[int]], Sequence[int]]


class ExpressionError(ConfigError):
    """A schedule expression, its time zone or a bound is wrong, or a question has no answer."""


def parse(
    expression: str,
    timezone: str = "UTC",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> ScheduleExpression:
    """Read a schedule expression; `start` and `end` (aware, both included) bound what is due.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    try:
        kind, body = _split_call(expression)
        bounds = _parse_bounds(start, end)
        zone = _find_zone(timezone)
        if kind == "cron":
            fields = _parse_cron_fields(body)
            return Cron(text=expression, timezone=timezone, bounds=bounds, fields=fields)
        if kind == "rate":
            period_s = _parse_period_s(body)
            return Rate(text=expression, timezone=timezone, bounds=bounds, period_s=period_s)
        moment = _parse_moment(body, zone)
        return At(text=expression, timezone=timezone, bounds=bounds, moment=moment)
    except ExpressionError as error:
        raise ExpressionError(f"schedule expression {expression!r}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """StartDate and EndDate of a schedule, in UTC; occurrences exactly on them are due."""

    start: datetime | None = None
    end: datetime | None = None

    @property
    def last(self) -> datetime:
        """The end, or that of the calendar: it stops every walk, and arithmetic never overflows."""
        return _LATEST if self.end is None else min(self.end, _LATEST)

    def lower(self, instant: datetime) -> datetime:
        """The later one of `instant` and the start."""
        return instant if self.start is None else max(instant, self.start)

    def contain(self, instant: datetime) -> bool:
        """Whether an occurrence at this instant is due."""
        return self.lower(instant) == instant <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Due at the wall-clock minutes in its time zone that match its six fields."""

    text: str
    timezone: str
    bounds: Bounds
    fields: CronFields = field(repr=False)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none any more."""
        return next(self._after(instant), None)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last occurrence that is not later than `instant`, in UTC; None if there was none."""
        until = min(_require_instant(instant), self.bounds.last)
        wall = until.astimezone(ZoneInfo(self.timezone))
        # In the second pass of a repeated hour, wall-clock times ahead of us have come already.
        repeated = (wall.replace(fold=0).utcoffset() or _ZERO) - (wall.utcoffset() or _ZERO)
        for tick in self._occurrences(wall + repeated, backwards=True):
            if tick <= until:
                return tick if self.bounds.contain(tick) else None
        return None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Occurrences with start < t <= end, ascending, in UTC."""
        return _until(end, self._after(start))

    def _after(self, instant: datetime) -> Iterator[datetime]:
        after = _require_instant(instant)
        begin = self.bounds.lower(after)
        if begin > self.bounds.last:
            return iter(())
        ticks = self._occurrences(begin.astimezone(ZoneInfo(self.timezone)))
        # The walk begins in the middle of a minute, perhaps of a repeated hour: drop what is past.
        return _until(self.bounds.last, (tick for tick in ticks if tick > after and tick >= begin))

    def _occurrences(self, wall: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        zone = ZoneInfo(self.timezone)
        for year, month, day, hour, minute in self.fields.walk(wall, backwards=backwards):
            tick = _first_coming(datetime(year, month, day, hour, minute, tzinfo=zone))
            if tick is not None:
                yield tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Due at its start date and every `period_s` seconds of elapsed time after it."""

    text: str
    timezone: str
    bounds: Bounds
    period_s: int

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none any more."""
        return next(self._after(instant), None)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last occurrence that is not later than `instant`, in UTC; None if there was none."""
        phase = self._require_phase()
        until = min(_require_instant(instant), self.bounds.last)
        if until < phase:
            return None
        return until - (until - phase) % timedelta(seconds=self.period_s)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Occurrences with start < t <= end, ascending, in UTC."""
        return _until(end, self._after(start))

    def _after(self, instant: datetime) -> Iterator[datetime]:
        phase = self._require_phase()
        after = _require_instant(instant)
        period = timedelta(seconds=self.period_s)
        passed = max(0, (after - phase) // period + 1)
        ticks = (phase + count * period for count in itertools.count(passed))
        return _until(self.bounds.last, ticks)

    def _require_phase(self) -> datetime:
        if self.bounds.start is None:
            raise ExpressionError(
                f"schedule expression {self.text!r}: a rate needs a StartDate to tell when it is"
                " due, because it has no phase of its own; give it one, or write a cron expression"
            )
        return self.bounds.start


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Due once; never, if its wall-clock time does not exist in its time zone."""

    text: str
    timezone: str
    bounds: Bounds
    moment: datetime | None

    def next_after(self, instant: datetime) -> datetime | None:
        """The occurrence, in UTC, if it is strictly after `instant`, else None."""
        after = _require_instant(instant)
        due = self._due()
        return due if due and due > after else None

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The occurrence, in UTC, if it is not later than `instant`, else None."""
        until = _require_instant(instant)
        due = self._due()
        return due if due and due <= until else None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The occurrence, in UTC, if start < t <= end."""
        due = self.next_after(start)
        return _until(end, iter(() if due is None else (due,)))

    def _due(self) -> datetime | None:
        return self.moment if self.moment and self.bounds.contain(self.moment) else None


ScheduleExpression: TypeAlias = Cron | Rate | At


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What six cron fields allow; sorted, so that a walk can skip years, months and days whole."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    # Compared by the expression's text: two equal rules are still two functions.
    day_rules: tuple[DayRule, ...] = field(compare=False)
    months: tuple[int, ...]
    years: tuple[int, ...]

    def walk(self, origin: datetime, *, backwards: bool = False) -> Iterator[tuple[int, ...]]:
        """(year, month, day, hour, minute) from the minute of `origin` on, wheel by wheel."""
        limit = (origin.year, origin.month, origin.day, origin.hour, origin.minute)
        return self._turn((), limit, backwards=backwards)

    def _turn(
        self, path: tuple[int, ...], limit: tuple[int, ...], *, backwards: bool
    ) -> Iterator[tuple[int, ...]]:
        if len(path) == len(limit):
            yield path
            return
        values = self._values_below(path)
        passed = operator.gt if backwards else operator.lt
        for value in reversed(values) if backwards else values:
            longer = (*path, value)
            if not passed(longer, limit[: len(longer)]):
                yield from self._turn(longer, limit, backwards=backwards)

    def _values_below(self, path: tuple[int, ...]) -> Sequence[int]:
        match path:
            case ():
                return self.years
            case (_,):
                return self.months
            case (year, month):
                weekdays = _weekdays_of_month(year, month)
                return sorted({day for rule in self.day_rules for day in rule(weekdays)})
            case (_, _, _):
                return self.hours
            case _:
                return self.minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One of the six fields: its name as AWS writes it, and the values it may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    also: str = ""

    def refuse(self, value: str, problem: str) -> ExpressionError:
        """The error to raise for `value`, an item of this field."""
        return ExpressionError(
            f"{self.name}: {value!r} {problem}; allowed are {self.low}-{self.high}{self.also},"
            " ranges a-b, steps a/n and lists a,b of them, and *"
        )

    def number(self, text: str, item: str) -> int:
        """The value that a number or a name stands for."""
        named = text in self.names
        value = self.low + self.names.index(text) if named else _whole_number(text)
        if value is None or not self.low <= value <= self.high:
            raise self.refuse(item, "cannot be read" if value is None else "is out of range")
        return value


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SUNDAY, _SATURDAY = 1, 7
_MINUTES = _Field(name="minutes", low=0, high=59)
_HOURS = _Field(name="hours", low=0, high=23)
_DAY_OF_MONTH = _Field(name="day-of-month", low=1, high=31, also=", L, LW, 15W, ?")
_MONTH = _Field(name="month", low=1, high=12, names=_MONTHS, also=" or JAN-DEC")
_DAY_OF_WEEK = _Field(
    name="day-of-week", low=1, high=7, names=_WEEKDAYS, also=" or SUN-SAT, L, 6L, 6#2, ?"
)
_YEAR = _Field(name="year", low=_FIRST_YEAR, high=_LAST_YEAR)


def _split_call(expression: str) -> tuple[str, str]:
    call = re.fullmatch(r"(cron|rate|at)\((.*)\)", expression.strip(), re.DOTALL)
    if call is None:
        raise ExpressionError(
            "is none of cron(minutes hours day-of-month month day-of-week year), rate(value unit)"
            " and at(yyyy-mm-ddThh:mm:ss); write one of them, in lower case"
        )
    return call[1], call[2]


def _parse_bounds(start: datetime | None, end: datetime | None) -> Bounds:
    start = start and _require_aware("start", start)
    end = end and _require_aware("end", end)
    if start and not _EARLIEST <= start <= _LATEST:
        raise ExpressionError(f"start: {start} is not in the years {_FIRST_YEAR}-{_LAST_YEAR}")
    if start and end and start > end:
        raise ExpressionError(f"start: {start} lies after the end, {end}; move one of them")
    return Bounds(start=start, end=end)


def _find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown, malformed, a folder of zones
        known = available_timezones()
        if not known:
            advice = "this machine has no time zone data at all: install the tzdata package"
        else:
            near = difflib.get_close_matches(name, known) or ["Europe/Paris"]
            advice = f"write a name of the IANA database, such as {' or '.join(near)}"
        raise ExpressionError(f"time zone {name!r} is unknown; {advice}") from error


def _parse_cron_fields(body: str) -> CronFields:
    texts = body.upper().split()
    if len(texts) != 6:  # noqa: PLR2004 - the six names are in the message
        crontab = ", as a crontab line has" if len(texts) == 5 else ""  # noqa: PLR2004 - as above
        raise ExpressionError(
            f"has {len(texts)} fields{crontab}; EventBridge wants 6: minutes hours day-of-month"
            " month day-of-week year, with ? in one of the day fields, such as"
            " cron(0 12 * * ? *) for noon each day"
        )
    minutes, hours, day_of_month, month, day_of_week, year = texts
    return CronFields(
        minutes=_parse_values(_MINUTES, minutes),
        hours=_parse_values(_HOURS, hours),
        day_rules=_parse_day_rules(day_of_month, day_of_week),
        months=_parse_values(_MONTH, month),
        years=_parse_values(_YEAR, year),
    )


def _parse_values(spec: _Field, text: str) -> tuple[int, ...]:
    return tuple(sorted({n for item in text.split(",") for n in _parse_item(spec, item)}))


def _parse_item(spec: _Field, item: str) -> Sequence[int]:
    """The values of `*`, `7` or `2-5`; with a step `/n` every n-th, from `7` on up to the end."""
    base, slash, step_text = item.partition("/")
    step = _whole_number(step_text) if slash else 1
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
    if spec is _YEAR:
        raise spec.refuse(item, "runs backwards, and years do not come round again")
    return [*range(first, spec.high + 1), *range(spec.low, last + 1)][::step]


def _parse_day_rules(day_of_month: str, day_of_week: str) -> tuple[DayRule, ...]:
    """EventBridge: day-of-month and day-of-week exclude each other, so exactly one is `?`."""
    if (day_of_month == "?") == (day_of_week == "?"):
        raise ExpressionError(
            f"day-of-month {day_of_month!r} and day-of-week {day_of_week!r}: exactly one of them"
            " has to be ?; write ? in the one that does not matter"
        )
    if day_of_week == "?":
        return tuple(_parse_day_of_month(item) for item in day_of_month.split(","))
    if day_of_week.count("#") > 1:
        raise _DAY_OF_WEEK.refuse(day_of_week, "has more than one #; make it two schedules")
    return tuple(_parse_day_of_week(item) for item in day_of_week.split(","))


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
        return lambda month: _days_falling_on((last,), month)[-1:]
    if "#" not in item:
        weekdays = _parse_item(_DAY_OF_WEEK, item)
        return lambda month: _days_falling_on(weekdays, month)
    weekday_text, _, week_text = item.partition("#")
    weekday, week = _DAY_OF_WEEK.number(weekday_text, item), _whole_number(week_text)
    if not week or week > _MOST_WEEKS:
        raise _DAY_OF_WEEK.refuse(item, f"asks for a week which is not 1 to {_MOST_WEEKS}")
    return lambda month: _days_falling_on((weekday,), month)[week - 1 : week]


def _weekdays_of_month(year: int, month: int) -> list[int]:
    first, length = calendar.monthrange(year, month)  # first: 0 = Monday
    return [(first + 1 + day) % 7 + 1 for day in range(length)]


def _days_falling_on(weekdays: Sequence[int], month: Sequence[int]) -> list[int]:
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


def _parse_period_s(body: str) -> int:
    count_text, _, unit = body.strip().partition(" ")
    unit = unit.strip()
    count = _whole_number(count_text)
    seconds = {"minute": 60, "hour": 3600, "day": 86400}.get(unit.removesuffix("s"))
    if not count or seconds is None:
        raise ExpressionError(
            f"rate: {body!r} is not a value and a unit; write a whole number above 0 and"
            " minutes, hours or days, such as rate(5 minutes)"
        )
    if (count == 1) == unit.endswith("s"):
        right = unit.removesuffix("s") + ("" if count == 1 else "s")
        raise ExpressionError(f"rate: unit {unit!r} does not fit {count}; write {count} {right}")
    if count * seconds > (_LATEST - _EARLIEST).total_seconds():
        raise ExpressionError(
            f"rate: value {count} ({unit}) outlasts the calendar; take a smaller one"
        )
    return count * seconds


def _parse_moment(body: str, zone: ZoneInfo) -> datetime | None:
    wrong = (
        f"at: {body!r} is not a time from {_FIRST_YEAR} to {_LAST_YEAR};"
        " write it as yyyy-mm-ddThh:mm:ss, such as at(2027-01-31T09:00:00)"
    )
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}", body.strip()):
        raise ExpressionError(wrong)
    try:
        wall = datetime.fromisoformat(body.strip()).replace(tzinfo=zone)
    except ValueError as error:
        raise ExpressionError(wrong) from error
    if not _FIRST_YEAR <= wall.year <= _LAST_YEAR:
        raise ExpressionError(wrong)
    return _first_coming(wall)


def _whole_number(text: str) -> int | None:
    # int() alone would take signs, underscores and the digits of other scripts.
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _first_coming(wall: datetime) -> datetime | None:
    """The UTC instant at which the clocks first show `wall`; None if they skip it."""
    instant = wall.astimezone(UTC)
    return instant if instant.astimezone(wall.tzinfo) == wall else None


def _until(end: datetime, ticks: Iterator[datetime]) -> Iterator[datetime]:
    last = _require_aware("end", end)
    return itertools.takewhile(lambda tick: tick <= last, ticks)


def _require_instant(instant: datetime) -> datetime:
    # Nothing is due outside the calendar, and a zone's arithmetic fails at datetime's own ends.
    return min(max(_require_aware("instant", instant), _EARLIEST), _LATEST)


def _require_aware(name: str, value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise ExpressionError(
            f"{name}: {value!r} has no time zone; pass an aware datetime, such as datetime.now(UTC)"
        )
    return value.astimezone(UTC)
