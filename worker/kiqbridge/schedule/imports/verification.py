"""Comparing what a schedule fired at before with what it will fire at here, instant by instant.

The old instants come from the source's own rules (source_clock.py), the new ones from the expressions as they
are written, parsed again from their text. A difference that a clock change explains is named
by its rule; any other one is a fault of the import.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Rate, ScheduleExpression
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.imports.record import ImportedSchedule
from kiqbridge.schedule.imports.source_clock import source_instants

Side = Literal["old", "new"]

MADE_UP: Final = (
    "the clocks skip this time; cron runs it right after the change, Scheduler leaves it out"
)
COMES_TWICE: Final = (
    "the clocks show this time twice; the source fires both times, Scheduler at the first"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An instant at which one side fires, and the other does not, or less often.

    Attributes:
        at: in UTC.
        side: which fires (more often).
        reason: the rule of clock changes that explains it; "" = none does.
    """

    at: datetime
    side: Side
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The comparison of one schedule.

    Attributes:
        old, new: how often each side fires in the time that was looked at.
        differences: by instant.
        not_compared: why there is nothing to compare; "" = it was compared.
    """

    old: int = 0
    new: int = 0
    differences: Sequence[Difference] = ()
    not_compared: str = ""

    @property
    def is_faithful(self) -> bool:
        """Whether every difference is one that the rules of clock changes explain."""
        return all(each.reason for each in self.differences)


def verify(
    schedule: ImportedSchedule, parsed: Sequence[ScheduleExpression], *, start: datetime, days: int
) -> Verification:
    """Compare a schedule with what was made of it, over the days after `start` (aware)."""
    end = start + timedelta(days=days)
    if any(isinstance(each, Rate) for each in parsed):
        return Verification(not_compared="an interval counts from its own start on either side")
    # Events of one schedule share the name of their ticks: an instant of two of them is enqueued once.
    new = sorted({instant for each in parsed for instant in each.between(start, end)})
    fields = schedule.source_expression
    text = schedule.expression if fields is None else fields
    try:
        old = source_instants(text, schedule.timezone, schedule.dialect, start, end)
    except ExpressionError:
        return Verification(
            new=len(new), not_compared=f"{schedule.expression} is no line of five fields"
        )
    return Verification(
        old=len(old),
        new=len(new),
        differences=tuple(_differences(old, new, ZoneInfo(schedule.timezone))),
    )


def _differences(
    old: Sequence[datetime], new: Sequence[datetime], zone: ZoneInfo
) -> Iterator[Difference]:
    before, after = Counter(old), Counter(new)
    for instant in sorted(before.keys() | after.keys()):
        surplus = before[instant] - after[instant]
        for _ in range(abs(surplus)):
            side: Side = "old" if surplus > 0 else "new"
            reason = _reason(instant, zone) if side == "old" else ""
            yield Difference(at=instant.astimezone(UTC), side=side, reason=reason)


def _reason(instant: datetime, zone: ZoneInfo) -> str:
    """Why the source may fire here alone; "" if no clock change explains it."""
    wall = instant.astimezone(zone)
    if wall.fold:
        return COMES_TWICE
    earlier = (instant - timedelta(minutes=1)).astimezone(zone)
    skipped = wall.replace(tzinfo=None) - earlier.replace(tzinfo=None) > timedelta(minutes=1)
    return MADE_UP if skipped else ""
