"""When an EventBridge schedule expression is due: `cron(...)`, `rate(...)` and `at(...)`.

Nothing else checks these texts before a deploy, so `parse` is strict: it refuses what AWS would
refuse, and reports which field is wrong and what it may contain. It follows the rules of the
"EventBridge Scheduler User Guide, Schedule types":

1. A cron expression names minutes of the wall clock in its time zone (cron_fields.py).
2. A wall-clock minute that daylight saving time leaves out is skipped; one that comes twice is due
   once, at its first coming.
3. A rate counts elapsed time from its start date, whatever the clocks do.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import re
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from kiqbridge.errors import near_names
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.cron_fields import (
    FIRST_YEAR,
    LAST_YEAR,
    CronFields,
    ExpressionError,
    parse_cron_fields,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# Two days more than the years themselves, so that no time zone cuts a first or last day short.
_EARLIEST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - timedelta(days=2)
_LATEST = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) + timedelta(days=2)
_ZERO = timedelta(0)
ON_THE_MINUTE = (0,)
LONGEST_S = int((_LATEST - _EARLIEST).total_seconds())
"""The period of a rate that outlasts the calendar."""


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
        kind, body, place = _split_call(expression)
        bounds = bounds_of(start, end)
        zone = check_zone(timezone)
        if kind == "cron":
            fields = parse_cron_fields(body, place)
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


class _Occurrences:
    """The questions to an expression, over the walk of its occurrences, which knows no bounds."""

    __slots__ = ()
    bounds: Bounds

    def next_after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none any more."""
        return next(self.after(instant), None)

    def latest_at_or_before(self, instant: datetime) -> datetime | None:
        """The last occurrence that is not later than `instant`, in UTC; None if there was none."""
        return next(self.until(instant), None)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Occurrences with start < t <= end, ascending, in UTC."""
        last = _require_aware("end", end)
        return itertools.takewhile(last.__ge__, self.after(start))

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Occurrences strictly after `instant`, ascending, in UTC."""
        after = require_instant(instant)
        begin, last = self.bounds.lower(after), self.bounds.last
        coming = (tick for tick in self.walk(begin) if tick > after and tick >= begin)
        return itertools.takewhile(last.__ge__, coming)

    def until(self, instant: datetime) -> Iterator[datetime]:
        """Occurrences that are not later than `instant`, descending, in UTC."""
        until = min(require_instant(instant), self.bounds.last)
        past = (tick for tick in self.walk(until, backwards=True) if tick <= until)
        return itertools.takewhile(self.bounds.contain, past)

    def walk(self, instant: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        """From about an instant on, ascending, or descending: some may lie just on the other side of it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron(_Occurrences):
    """Due at the wall-clock minutes in its time zone that match its six fields, at these seconds of them.

    EventBridge knows no seconds: they are those of cron lines as sidekiq-cron reads them.
    """

    text: str
    timezone: str
    bounds: Bounds
    fields: CronFields = field(repr=False)
    seconds: tuple[int, ...] = ON_THE_MINUTE

    def walk(self, instant: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        """The occurrences from `instant` on, in UTC, regardless of the bounds."""
        zone = _zone(self.timezone)
        wall = instant.astimezone(zone)
        if backwards and wall.fold:
            # In the second pass of a repeated hour, wall-clock times ahead of us have come already.
            wall += (wall.replace(fold=0).utcoffset() or _ZERO) - (wall.utcoffset() or _ZERO)
        for year, month, day, hour, minute in self.fields.walk(wall, backwards=backwards):
            tick = first_coming(datetime(year, month, day, hour, minute, tzinfo=zone))
            if tick is not None:
                for second in reversed(self.seconds) if backwards else self.seconds:
                    yield tick + timedelta(seconds=second) if second else tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(_Occurrences):
    """Due at its start date and every `period_s` seconds of elapsed time after it."""

    text: str
    timezone: str
    bounds: Bounds
    period_s: int

    def walk(self, instant: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        """The occurrences from `instant` on, in UTC, regardless of the bounds.

        Raises:
            ExpressionError: it has no start from which it counts.
        """
        phase, period = self.bounds.start, timedelta(seconds=self.period_s)
        if phase is None:
            raise ExpressionError(
                f"schedule expression {self.text!r}: a rate needs a StartDate, from which its"
                " occurrences are counted, because it has no phase of its own; set StartDate, or write a"
                " cron expression"
            )
        passed = (instant - phase) // period
        counts = range(passed, -1, -1) if backwards else itertools.count(max(0, passed))
        return (phase + count * period for count in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class At(_Occurrences):
    """Due once; never, if its wall-clock time does not exist in its time zone."""

    text: str
    timezone: str
    bounds: Bounds
    moment: datetime | None

    def walk(self, instant: datetime, *, backwards: bool = False) -> Iterator[datetime]:  # noqa: ARG002 - it is the same from everywhere
        """The occurrences from `instant` on, in UTC, regardless of the bounds."""
        return iter(() if self.moment is None else (self.moment,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(_Occurrences):
    """Due when any of its parts is, once where several are; all of them have its zone and its bounds.

    EventBridge takes one day field in an expression, so a schedule that is due on the 13th or on Fridays is two
    rules. They share one ledger, in which the second delivery of the same instant is a duplicate.
    """

    text: str
    timezone: str
    bounds: Bounds
    parts: tuple[ScheduleExpression, ...] = field(repr=False)

    def walk(self, instant: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        """The occurrences from `instant` on, in UTC, regardless of the bounds."""
        walks = [part.walk(instant, backwards=backwards) for part in self.parts]
        for tick, _ in itertools.groupby(heapq.merge(*walks, reverse=backwards)):
            yield tick


ScheduleExpression: TypeAlias = "Cron | Rate | At | Union"


def _split_call(expression: str) -> tuple[str, str, int]:
    """Its kind, what stands between the parentheses, and where that begins, counted from 1."""
    call = re.fullmatch(r"\s*(cron|rate|at)\((.*)\)\s*", expression, re.DOTALL)
    if call is None:
        raise ExpressionError(
            "is none of cron(minutes hours day-of-month month day-of-week year), rate(value unit)"
            " and at(yyyy-mm-ddThh:mm:ss); write one of them, in lower case"
        )
    return call[1], call[2], call.start(2) + 1


def bounds_of(start: datetime | None, end: datetime | None) -> Bounds:
    """The bounds of a schedule; both are aware.

    Raises:
        ExpressionError: one has no zone, is outside of the calendar, or they are in the wrong order.
    """
    start = start and _require_aware("start", start)
    end = end and _require_aware("end", end)
    if start and not _EARLIEST <= start <= _LATEST:
        raise ExpressionError(f"start: {start} is not in the years {FIRST_YEAR}-{LAST_YEAR}")
    if start and end and start > end:
        raise ExpressionError(f"start: {start} lies after the end, {end}; move one of them")
    return Bounds(start=start, end=end)


@functools.cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)  # its own cache costs as much as the rest of a computation


def check_zone(name: str) -> ZoneInfo:
    """The time zone of a name of the IANA database.

    Raises:
        ExpressionError: there is none; the message names near ones.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown, malformed, a folder of zones
        raise unknown_zone(name) from error


def unknown_zone(name: str) -> ExpressionError:
    """That there is no such time zone, with names that are near."""
    known = available_timezones()
    advice = "this machine has no time zone data at all: install the tzdata package"
    if known:
        near = near_names(name, known) or ["Europe/Paris"]
        advice = f"write a name of the IANA database, such as {' or '.join(near)}"
    return ExpressionError(f"time zone {name!r} is unknown; {advice}")


def _parse_period_s(body: str) -> int:
    count_text, _, unit = body.strip().partition(" ")
    unit = unit.strip()
    count = whole_number(count_text)
    seconds = {"minute": 60, "hour": 3600, "day": 86400}.get(unit.removesuffix("s"))
    if not count or seconds is None:
        raise ExpressionError(
            f"rate: {body!r} is not a value and a unit; write a whole number above 0 and"
            " minutes, hours or days, such as rate(5 minutes)"
        )
    if (count == 1) == unit.endswith("s"):
        right = unit.removesuffix("s") + ("" if count == 1 else "s")
        raise ExpressionError(f"rate: unit {unit!r} does not fit {count}; write {count} {right}")
    if count * seconds > LONGEST_S:
        raise ExpressionError(
            f"rate: value {count} ({unit}) outlasts the calendar; take a smaller one"
        )
    return count * seconds


def _parse_moment(body: str, zone: ZoneInfo) -> datetime | None:
    wrong = (
        f"at: {body!r} is not a time from {FIRST_YEAR} to {LAST_YEAR};"
        " write it as yyyy-mm-ddThh:mm:ss, such as at(2027-01-31T09:00:00)"
    )
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}", body.strip()):
        raise ExpressionError(wrong)
    try:
        # Not fromisoformat: since Python 3.14 it takes 24:00:00 as the next day.
        wall = datetime.strptime(body.strip(), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=zone)
    except ValueError as error:
        raise ExpressionError(wrong) from error
    if not FIRST_YEAR <= wall.year <= LAST_YEAR:
        raise ExpressionError(wrong)
    return first_coming(wall)


def first_coming(wall: datetime) -> datetime | None:
    """The UTC instant at which the clocks first show `wall`; None if they skip it."""
    instant = wall.astimezone(UTC)
    return instant if instant.astimezone(wall.tzinfo) == wall else None


def require_instant(instant: datetime) -> datetime:
    """An aware instant in UTC, moved into the calendar.

    Raises:
        ExpressionError: it has no time zone.
    """
    # Nothing is due outside the calendar, and a zone's arithmetic fails at datetime's own ends.
    return min(max(_require_aware("instant", instant), _EARLIEST), _LATEST)


def _require_aware(name: str, value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise ExpressionError(
            f"{name}: {value!r} has no time zone; pass an aware datetime, such as datetime.now(UTC)"
        )
    return value.astimezone(UTC)
