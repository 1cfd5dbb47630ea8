"""Schedules that fall into an hour that a clock leaves out or repeats (KB107, KB108)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Cron
from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.sourced import SourcedSchedule

_YEARS_DAYS: Final = 2 * 365
_ALL_HOURS: Final = 24
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A clock that is turned.

    Attributes:
        instant: when, in UTC.
        before: wall clock, without a zone, at which it is turned.
        after: what it shows then.
    """

    instant: datetime
    before: datetime
    after: datetime

    @property
    def is_gap(self) -> bool:
        """Whether times are left out; else they come twice."""
        return self.after > self.before

    def minutes(self) -> Iterator[datetime]:
        """The minutes of the wall clock that are left out, or come twice."""
        low, high = sorted((self.before, self.after))
        while low < high:
            yield low
            low += _MINUTE


def turns_of(zone: str, now: datetime, days: int = _YEARS_DAYS) -> list[Turn]:
    """When a zone's clock is turned within some days after now."""
    place = ZoneInfo(zone)
    found_turns = []
    day = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for _ in range(days):
        following = day + timedelta(days=1)
        if _offset(day, place) != _offset(following, place):
            instant = _bisected(day, following, lambda each: _offset(each, place))
            found_turns.append(
                Turn(
                    instant=instant,
                    before=(instant + _offset(instant - _MINUTE, place)).replace(tzinfo=None),
                    after=(instant + _offset(instant, place)).replace(tzinfo=None),
                )
            )
        day = following
    return found_turns


def lost_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB107: what is left out, of schedules that do not fire at all hours."""
    for each, when, turns in _with_turns(surroundings):
        dates = _dates(when, [turn for turn in turns if turn.is_gap])
        if dates and len(when.fields.hours) < _ALL_HOURS:
            texts = (
                f"{when.text}: {_listed(dates)} does not exist in {when.timezone}",
                "it is left out on that day, since the clock goes forward",
                f"write a time outside of {_span(turns, is_gap=True)}, or use UTC if the hour does not matter",
            )
            yield found("KB107", "warning", each, texts)


def repeated_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB108: what comes twice fires once; who fires every hour is silent for one."""
    for each, when, turns in _with_turns(surroundings):
        repeats = [turn for turn in turns if not turn.is_gap]
        dates = _dates(when, repeats)
        if not dates:
            continue
        if len(when.fields.hours) == _ALL_HOURS:
            days = ", ".join(f"{turn.before:%Y-%m-%d}" for turn in repeats)
            texts = (
                f"{when.text} fires every hour, in {when.timezone}",
                f"in the hour that comes twice it fires only the first time, so it pauses for an hour on {days}",
                "write UTC as its zone: the hour of the day does not matter to it",
            )
        else:
            texts = (
                f"{when.text}: {_listed(dates)} comes twice in {when.timezone}",
                "it fires the first time only, as Scheduler does",
                "nothing, if once a day is meant",
            )
        yield found("KB108", "note", each, texts)


def _with_turns(
    surroundings: Surroundings,
) -> Iterator[tuple[SourcedSchedule, Cron, Sequence[Turn]]]:
    known: dict[str, list[Turn]] = {}
    for each in surroundings.schedules:
        when = each.definition.when
        if isinstance(when, Cron):
            if when.timezone not in known:
                known[when.timezone] = turns_of(when.timezone, surroundings.now)
            yield each, when, known[when.timezone]


def _dates(when: Cron, turns: Sequence[Turn]) -> list[datetime]:
    """The first minute of each turn at which the schedule is due by the wall clock."""
    fields = when.fields
    dates = []
    for turn in turns:
        if not when.bounds.contain(turn.instant):
            continue
        for minute in turn.minutes():
            is_due = minute.minute in fields.minutes and minute.hour in fields.hours
            if is_due and fields.is_due_on(minute.year, minute.month, minute.day):
                dates.append(minute)
                break
    return dates


def _listed(dates: Sequence[datetime]) -> str:
    days = " and ".join(f"{date:%Y-%m-%d}" for date in dates)
    return f"{dates[0]:%H:%M} on {days}"


def _span(turns: Sequence[Turn], *, is_gap: bool) -> str:
    minutes = next(list(turn.minutes()) for turn in turns if turn.is_gap == is_gap)
    return f"{minutes[0]:%H:%M}-{minutes[-1]:%H:%M}"


def _offset(instant: datetime, place: ZoneInfo) -> timedelta:
    return instant.astimezone(place).utcoffset() or timedelta()


def _bisected(low: datetime, high: datetime, value: Callable[[datetime], timedelta]) -> datetime:
    """The first minute whose value is that of `high`; `low` has another one."""
    wanted = value(high)
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        low, high = (low, middle) if value(middle) == wanted else (middle, high)
    return high
