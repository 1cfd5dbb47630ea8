"""Comparing what a schedule fired at before with what it will fire at here, instant by instant.

The new instants come from the expressions as they are written, parsed again from their text; the old ones from the
rules of the source's own program, read by crontab.py and placed apart from cron.py, so that a fault of either shows.

- cron: as Debian's cron(8), "Notes" says. After the clocks skipped up to three hours, what was due in them at
  a fixed time runs at once; when they go back by up to three hours, such a line does not run again. A line
  whose minute or hour begins with `*` runs by the new time in both cases.
- fugit (sidekiq-cron, sidekiq-scheduler): what is skipped is not made up for, what comes twice runs twice.
  Observed of fugit 1.5.2.

A difference that a clock change explains is named by its rule; any other one is a fault of the import.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo

from kiqbridge.features.imports.fugit import parse_sidekiq_cron
from kiqbridge.features.imports.record import Dialect, ImportedSchedule
from kiqbridge.schedule.cron import ON_THE_MINUTE, At, Cron, Rate, ScheduleExpression
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.zone_changes import next_change

Side = Literal["old", "new"]
MADE_UP: Final = (
    "the clocks skip this time; cron runs it right after the change, Scheduler leaves it out"
)

COMES_TWICE: Final = (
    "the clocks show this time twice; the source fires both times, Scheduler at the first"
)

_MINUTE: Final = timedelta(minutes=1)

_DAY: Final = timedelta(days=1)


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
    if any(isinstance(each, At) for each in parsed):
        return Verification(not_compared="it is due once, at the time that the source names")
    # Events of one schedule share the name of their ticks: an instant of two of them is enqueued once.
    new = sorted({instant for each in parsed for instant in each.between(start, end)})
    text = schedule.source_expression or schedule.expression
    try:
        old = source_instants(text, schedule.timezone, schedule.dialect, start, end)
    except ExpressionError as error:
        return Verification(new=len(new), not_compared=str(error))
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


def source_instants(
    text: str, timezone: str, dialect: Dialect, start: datetime, end: datetime
) -> list[datetime]:
    """Instants with start < t <= end at which the program fires, in UTC, ascending.

    An instant stands as often in it as the program fires then.

    Args:
        text: fields, a macro or words, as the program has them.
        timezone: in which they are read.
        dialect: whose rules.
        start, end: aware.

    Raises:
        ExpressionError: the program cannot read it, or it has seconds or is no cron line.
    """
    parsed = (parse_crontab if dialect == "cron" else parse_sidekiq_cron)(text, timezone)
    if not isinstance(parsed, Cron):
        raise ExpressionError(f"{text!r} is not repeated at times of the calendar")
    if parsed.seconds != ON_THE_MINUTE:
        raise ExpressionError(f"{text!r} has seconds; only whole minutes are compared")
    zone = ZoneInfo(parsed.timezone)
    is_wild = any(word.startswith("*") for word in text.split()[:2])
    last = (end + _DAY).astimezone(zone).replace(tzinfo=None)
    found: list[datetime] = []
    for parts in parsed.fields.walk((start - _DAY).astimezone(zone)):
        if datetime(*parts) > last:  # noqa: DTZ001 - wall-clock times of the zone
            break
        found += _placed(datetime(*parts, tzinfo=zone), follows_clock=is_wild or dialect == "fugit")
    return sorted(each for each in found if start < each <= end)


def _placed(wall: datetime, *, follows_clock: bool) -> list[datetime]:
    """When a wall-clock time fires: each time that the clocks show it, or once, also if they skip it."""
    first, second = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return [first]
    if first < second:
        return [first, second] if follows_clock else [first]
    change = None if follows_clock else next_change(str(wall.tzinfo), second - _MINUTE)
    return [] if change is None else [change.instant]
