"""When the clocks of the rules' time zones change, and which rules that concerns; pure.

A line says so when it happens, and at the start if it is near: otherwise a rule that does not fire in spring
looks like a fault.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Bounds, Cron
from kiqbridge.schedule.template import TemplateSchedule

NEAR: Final = timedelta(hours=24)
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_DAYS_AHEAD: Final = 400  # a zone whose clocks change does so within a year
_MOST_TIMES: Final = 2
"""Of a rule that are named; a rule with more is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChange:
    """The clocks of a zone change.

    Attributes:
        timezone: IANA name.
        instant: the first one with the new offset, in UTC.
        before, after: wall-clock times of the old and of the new offset at that instant, without a zone.
        names: abbreviations of both, such as CEST and CET.
    """

    timezone: str
    instant: datetime
    before: datetime
    after: datetime
    names: tuple[str, str]

    @property
    def is_forward(self) -> bool:
        """Whether wall-clock times are left out, and do not come twice."""
        return self.after > self.before


def next_change(timezone: str, instant: datetime) -> ZoneChange | None:
    """The first change of a zone's clocks after an instant; None: none within 400 days."""
    zone = ZoneInfo(timezone)
    low = instant.astimezone(UTC).replace(microsecond=0)
    offset = low.astimezone(zone).utcoffset()
    for _ in range(_DAYS_AHEAD):
        high = low + _DAY
        if high.astimezone(zone).utcoffset() != offset:
            return _between(timezone, low, high)
        low = high
    return None


def describe(change: ZoneChange, rules: Iterable[TemplateSchedule]) -> str:
    """What happens, and to which of the rules: those of its zone that name a time left out, or repeated."""
    old, new = change.names
    low, high = sorted((change.before, change.after))
    hours = f"{low:%H:%M} to {high:%H:%M}"
    kind = "does not exist" if change.is_forward else "comes twice"
    turn = f"{change.before:%a %Y-%m-%d %H:%M} {old} becomes {change.after:%H:%M} {new}"
    what = f"{turn}: {hours} {kind}"
    names = concerned(change, rules)
    if not names:
        return f"{what}; concerns no rule"
    fate = "not due" if change.is_forward else "due once, at the first coming"
    return f"{what}; {fate}: {', '.join(names)}"


def concerned(change: ZoneChange, rules: Iterable[TemplateSchedule]) -> list[str]:
    """The rules that a change concerns, each with the times that are left out, or come twice."""
    low, high = sorted((change.before, change.after))
    return [
        f"{rule.name} {_times(times)}"
        for rule in rules
        if rule.enabled and rule.timezone == change.timezone and (times := _due(rule, low, high))
    ]


class ZoneCalendar:
    """The changes to come of some zones; asked again and again with a later time."""

    def __init__(self, timezones: Iterable[str], start: datetime) -> None:
        found = (next_change(name, start) for name in sorted(set(timezones)))
        self._coming = [change for change in found if change is not None]

    def next_instant(self) -> datetime | None:
        """When the next clock changes; None if none does."""
        return min((change.instant for change in self._coming), default=None)

    def near(self, now: datetime) -> list[ZoneChange]:
        """The changes of the next 24 hours."""
        return [change for change in self._coming if change.instant - now <= NEAR]

    def due(self, now: datetime) -> list[ZoneChange]:
        """The changes since the last look, in order."""
        due = sorted(
            (change for change in self._coming if change.instant <= now),
            key=lambda change: change.instant,
        )
        if due:
            later = [next_change(change.timezone, now) for change in due]
            self._coming = [change for change in self._coming if change.instant > now]
            self._coming += [change for change in later if change is not None]
        return due


def _between(timezone: str, low: datetime, high: datetime) -> ZoneChange:
    zone = ZoneInfo(timezone)
    offset = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + _SECOND * int((high - low) / _SECOND / 2)
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    after = high.astimezone(zone)
    before = high + (offset or timedelta())
    return ZoneChange(
        timezone=timezone,
        instant=high,
        before=before.replace(tzinfo=None),
        after=after.replace(tzinfo=None),
        names=(low.astimezone(zone).tzname() or "", after.tzname() or ""),
    )


def _due(rule: TemplateSchedule, low: datetime, high: datetime) -> Sequence[datetime]:
    """The wall-clock times from `low` on and before `high` that a rule names."""
    if not isinstance(rule.expression, Cron):
        return ()
    wall = dataclasses.replace(rule.expression, timezone="UTC", bounds=Bounds())
    first, last = (moment.replace(tzinfo=UTC) - _MINUTE for moment in (low, high))
    return list(wall.between(first, last))


def _times(times: Sequence[datetime]) -> str:
    if len(times) > _MOST_TIMES:
        return f"({len(times)} times)"
    return f"({' and '.join(f'{time:%H:%M}' for time in times)})"
