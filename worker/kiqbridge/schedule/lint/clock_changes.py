"""Schedules that fall into an hour that a clock leaves out or repeats (KB107, KB108)."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from kiqbridge.schedule.cron import Cron
from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.schedule.zone_changes import ZoneChange, next_change

_YEARS: Final = timedelta(days=2 * 365)
_ALL_HOURS: Final = 24
_MINUTE: Final = timedelta(minutes=1)


def changes_of(zone: str, now: datetime) -> list[ZoneChange]:
    """When a zone's clocks change within two years after now."""
    found_changes = []
    change = next_change(zone, now)
    while change is not None and change.instant <= now + _YEARS:
        found_changes.append(change)
        change = next_change(zone, change.instant)
    return found_changes


def lost_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB107: what is left out, of schedules that do not fire at all hours."""
    for each, when, changes in _with_changes(surroundings):
        gaps = [change for change in changes if change.is_forward]
        dates = _dates(when, gaps)
        if dates and len(when.fields.hours) < _ALL_HOURS:
            first, end = gaps[0].span
            texts = (
                f"{when.text}: {_listed(dates)} does not exist in {when.timezone}",
                "it is left out on that day, since the clock goes forward",
                f"write a time outside of {first:%H:%M}-{end - _MINUTE:%H:%M}, or use UTC if the hour does not matter",
            )
            yield found("KB107", "warning", each, texts)


def repeated_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB108: what comes twice fires once; who fires every hour is silent for one."""
    for each, when, changes in _with_changes(surroundings):
        repeats = [change for change in changes if not change.is_forward]
        dates = _dates(when, repeats)
        if not dates:
            continue
        if len(when.fields.hours) == _ALL_HOURS:
            days = ", ".join(f"{change.before:%Y-%m-%d}" for change in repeats)
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


def _with_changes(
    surroundings: Surroundings,
) -> Iterator[tuple[SourcedSchedule, Cron, Sequence[ZoneChange]]]:
    known: dict[str, list[ZoneChange]] = {}
    for each in surroundings.schedules:
        when = each.definition.when
        if isinstance(when, Cron):
            if when.timezone not in known:
                known[when.timezone] = changes_of(when.timezone, surroundings.now)
            yield each, when, known[when.timezone]


def _dates(when: Cron, changes: Sequence[ZoneChange]) -> list[datetime]:
    """The first time of each change that the schedule names."""
    due = (change.times_of(when) for change in changes if when.bounds.contain(change.instant))
    return [times[0] for times in due if times]


def _listed(dates: Sequence[datetime]) -> str:
    days = " and ".join(f"{date:%Y-%m-%d}" for date in dates)
    return f"{dates[0]:%H:%M} on {days}"
