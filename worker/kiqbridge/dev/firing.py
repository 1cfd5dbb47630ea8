"""Which rule of a template fires when, and the event that it then delivers; all of it pure.

EventBridge Scheduler in small: no flexible windows, no retries, no duplicates.

A line reports a change of the clocks when it happens, and at the start if it is near: otherwise a rule that does not
fire in spring looks like a fault.
"""

import dataclasses
import itertools
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kiqbridge.errors import PayloadError, near_names
from kiqbridge.schedule import cron
from kiqbridge.schedule.template import TemplateSchedule
from kiqbridge.schedule.zone_changes import ZoneChange, next_change
from kiqbridge.wire.amounts import instant_text

SIMULATED: Final = "#simulated-"
"""What the name of a schedule has behind it, before the name of the run, in ticks of a simulated clock."""

MOST_AT_ONCE: Final = 10
"""Ticks of one rule that are delivered late; a machine that slept a night shall not fire hundreds."""

_COMING: Final = 10
"""How many firings are looked at to find out how often a rule fires; the next one alone may come late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedClock:
    """The clock of the rules.

    Attributes:
        start: epoch seconds of the wall clock at which it starts.
        speed: how many times as fast as the wall clock it runs.
        shows: epoch seconds that it shows at `start`; None = it agrees with the wall clock then.
    """

    start: float
    speed: float = 1.0
    shows: float | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether it is another one than the wall clock."""
        return self.speed != 1 or self.shows is not None

    @property
    def offset_s(self) -> float:
        """Seconds that it is ahead of the wall clock when it starts; below 0: behind."""
        return 0.0 if self.shows is None else self.shows - self.start

    def read(self, wall: float) -> datetime:
        """What it shows at this epoch second."""
        passed = (wall - self.start) * self.speed
        return datetime.fromtimestamp(self.start + self.offset_s + passed, UTC)

    def wall_at(self, shown: float) -> float:
        """The epoch second at which it shows this one."""
        return self.start + (shown - self.start - self.offset_s) / self.speed

    def real_seconds(self, span: timedelta) -> float:
        """How long we really wait for a span of its time."""
        return span.total_seconds() / self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One tick of a rule; `skipped` are older ones that were not delivered."""

    schedule: TemplateSchedule
    instant: datetime
    skipped: int = 0


class Agenda:
    """What fires from an instant on; asked again and again with a later one."""

    def __init__(self, schedules: Sequence[TemplateSchedule], start: datetime) -> None:
        self._schedules = [schedule for schedule in schedules if schedule.enabled]
        self._seen = start
        self._next = {
            schedule.where: schedule.expression.next_after(start) for schedule in self._schedules
        }

    def next_instant(self) -> datetime | None:
        """When the next rule fires; None if none does any more."""
        return min((instant for instant in self._next.values() if instant), default=None)

    def due(self, now: datetime) -> list[Firing]:
        """What fires after the last look and not after `now`, in order."""
        firings: list[Firing] = []
        for schedule in self._schedules:
            coming = self._next[schedule.where]
            if coming is not None and coming <= now:
                firings += self._late(schedule, now)
                self._next[schedule.where] = schedule.expression.next_after(now)
        self._seen = max(self._seen, now)
        return sorted(firings, key=lambda firing: firing.instant)

    def _late(self, schedule: TemplateSchedule, now: datetime) -> list[Firing]:
        instants: deque[datetime] = deque(maxlen=MOST_AT_ONCE)
        count = 0
        for instant in schedule.expression.between(self._seen, now):
            instants.append(instant)
            count += 1
        firings = [Firing(schedule=schedule, instant=instant) for instant in instants]
        firings[0] = dataclasses.replace(firings[0], skipped=count - len(firings))
        return firings


def anchored(schedule: TemplateSchedule, boot: datetime) -> TemplateSchedule:
    """The schedule with a phase: a rate without a StartDate counts from its deployment, our start."""
    expression = schedule.expression
    if not isinstance(expression, cron.Rate) or expression.bounds.start is not None:
        return schedule
    phase = boot.replace(microsecond=0)
    end = expression.bounds.end
    if end is not None and end < phase:
        return dataclasses.replace(schedule, enabled=False)
    counted = cron.parse(expression.text, schedule.timezone, start=phase, end=end)
    return dataclasses.replace(schedule, expression=counted)


def most_frequent(schedules: Sequence[TemplateSchedule], now: datetime) -> TemplateSchedule | None:
    """The enabled schedule whose tenth coming firing is the soonest, the first of equals."""
    reaches = [
        (reach, index)
        for index, schedule in enumerate(schedules)
        if schedule.enabled and (reach := _reach(schedule.expression, now))
    ]
    return schedules[min(reaches)[1]] if reaches else None


def _reach(expression: cron.ScheduleExpression, now: datetime) -> datetime | None:
    """When it will have fired ten times; far off if it ends before, None if it is over."""
    coming = list(itertools.islice(expression.after(now), _COMING))
    if len(coming) < _COMING:
        return datetime.max.replace(tzinfo=UTC) if coming else None
    return coming[-1]


def event_of(
    schedule: TemplateSchedule, instant: datetime, *, execution_id: str, own_name: str = ""
) -> dict[str, Any]:
    """The event that a tick delivers: the Input with its context attributes filled in.

    Args:
        schedule: a rule with an Input.
        instant: when it was due.
        execution_id: of this delivery.
        own_name: appended to the name of the tick's schedule. The ledger then takes the tick for
            one of another rule, and cannot take a true tick for its repetition.
    """
    attributes = {
        "schedule-arn": f"arn:aws:scheduler:eu-west-1:000000000000:schedule/local/{schedule.name}",
        "scheduled-time": instant_text(instant),
        "execution-id": execution_id,
        "attempt-number": "1",
    }
    text = schedule.input or "{}"
    if schedule.kind == "ScheduleV2":
        for name, value in attributes.items():
            text = text.replace(f"<aws.scheduler.{name}>", value)
    event: dict[str, Any] = json.loads(text)
    if "tick" in event:
        event["tick"]["schedule"] += own_name
        event["tick"]["on_stale"] = "ignore"  # it is shown, and no reason to be alarmed here
        if own_name:
            # The worker would compare the instant with a clock that the tick does not come from.
            event["tick"].pop("max_age_s", None)
    return event


def check_rules(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Check the names of `--fire`.

    Raises:
        PayloadError: one of them is no rule.
    """
    by_name = {name.lower(): name for name in known}
    for name in wanted:
        if name.lower() not in by_name:
            near = " or ".join(by_name[each] for each in near_names(name.lower(), by_name))
            hint = (
                f"did you mean {near}?" if near else f"the rules are: {', '.join(known) or 'none'}"
            )
            raise PayloadError(f"--fire: {name!r} is no rule of the template; {hint}")


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
