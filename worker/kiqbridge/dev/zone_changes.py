"""Which rules a change of the clocks concerns; pure.

A line says so when it happens, and at the start if it is near: otherwise a rule that does not fire in spring
looks like a fault.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from kiqbridge.schedule.template import TemplateSchedule
from kiqbridge.schedule.zone_changes import ZoneChange, next_change

NEAR: Final = timedelta(hours=24)
_MOST_TIMES: Final = 2
"""Of a rule that are named; a rule with more is counted."""


def describe(change: ZoneChange, rules: Iterable[TemplateSchedule]) -> str:
    """What happens, and to which of the rules: those of its zone that name a time left out, or repeated."""
    old, new = change.names
    low, high = change.span
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
    return [
        f"{rule.name} {_times(times)}"
        for rule in rules
        if rule.enabled
        and rule.timezone == change.timezone
        and (times := change.times_of(rule.expression))
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


def _times(times: Sequence[datetime]) -> str:
    if len(times) > _MOST_TIMES:
        return f"({len(times)} times)"
    return f"({' and '.join(f'{time:%H:%M}' for time in times)})"
