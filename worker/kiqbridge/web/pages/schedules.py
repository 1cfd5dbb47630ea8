"""Schedules: when each fires next, in its zone and the viewer's, and what became of its last occurrences.

Run now, pause and resume, skip the next occurrence. The week of all schedules: when each fires, where several fall on
one minute, and which ticks did not come.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api import ScheduleSet, ScheduleView
from kiqbridge.api.schedules import Occurrence
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.listing import page_of
from kiqbridge.web.pages.queues import PAUSES
from kiqbridge.web.shown import absolute, duration

BACK_DAYS, DAYS = 2, 7
OFTEN: Final = 24 * DAYS + 1
"""A schedule with so many occurrences in a week fires more often than hourly: it would fill all cells."""
MOST_NAMES: Final = 6


@dataclass(slots=True)
class Hour:
    """An hour of a day.

    Attributes:
        names: schedules that fire within it, with the minute.
        collides: most of them that fire within one minute.
        missed: schedules of which a tick did not come.
    """

    names: list[str] = field(default_factory=list)
    collides: int = 1
    missed: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """All of it in words."""
        parts = [", ".join(self.names[:MOST_NAMES])] if self.names else []
        if len(self.names) > MOST_NAMES:
            parts.append(f"and {len(self.names) - MOST_NAMES} more")
        if self.collides > 1:
            parts.append(f"{self.collides} at the same minute")
        return "; ".join([*parts, *(f"missed: {name}" for name in self.missed[:MOST_NAMES])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Two days back and five ahead.

    Attributes:
        days: each with its 24 hours.
        often: schedules that fire more often than hourly, which no cell shows.
    """

    days: Sequence[tuple[datetime, Sequence[Hour]]]
    often: Sequence[str]

    @property
    def is_empty(self) -> bool:
        """Whether no cell shows anything."""
        return not any(hour.title for _, hours in self.days for hour in hours)


def week_of(schedules: Sequence[ScheduleView], now: float, zone: tzinfo) -> Week:
    """The week around `now` (epoch seconds), on the clock of a zone."""
    today = datetime.fromtimestamp(now, zone).date()
    first = datetime.combine(today - timedelta(days=BACK_DAYS), time(), zone)
    end = datetime.combine(today + timedelta(days=DAYS - BACK_DAYS), time(), zone)
    hours: defaultdict[tuple[object, int], Hour] = defaultdict(Hour)
    minutes: Counter[datetime] = Counter()
    often = []
    for schedule in schedules:
        coming = [datetime.fromtimestamp(at, zone) for at in schedule.next if at < end.timestamp()]
        if len(coming) >= OFTEN:
            often.append(schedule.name)
            coming = []
        for at in coming:
            hour = hours[at.date(), at.hour]
            hour.names.append(f"{at:%H:%M} {schedule.name}")
            minute = at.replace(second=0)
            minutes[minute] += 1
            hour.collides = max(hour.collides, minutes[minute])
        for each in schedule.occurrences:
            if each.kind == "missed" and first.timestamp() <= each.at < end.timestamp():
                at = datetime.fromtimestamp(each.at, zone)
                hours[at.date(), at.hour].missed.append(f"{at:%H:%M} {schedule.name}")
    days = [first + timedelta(days=each) for each in range(DAYS)]
    return Week(
        days=[(day, [hours[day.date(), hour] for hour in range(24)]) for day in days], often=often
    )


TICKS: Final = 20
ROWS: Final = 50
HISTORY: Final = 200
UPCOMING: Final = 10
FRESH_S: Final = 3.0
WEEK_FRESH_S: Final = 60.0
_BAD: Final = ("dead", "discarded", "expired")


def show(request: Request) -> Response:
    """All schedules, the next to fire first."""
    view = view_of(request)
    wanted = request.query_params.get("q", "").strip()
    found = view.read(("schedules",), lambda: ScheduleSet(view.operator).fetch(last=TICKS), FRESH_S)
    matching = [each for each in found if wanted.casefold() in searched(each)]
    return render(
        request,
        "schedules.html",
        page=page_of(matching, request, ROWS),
        week=view.read(
            ("week", wanted, view.zone_name), lambda: _week(view, matching), WEEK_FRESH_S
        ),
        total=len(found),
        wanted=wanted,
        search={
            "path": "/schedules",
            "what": "schedules",
            "q": wanted,
            "hint": "name, class, origin or state",
        },
        ticks_of=ticks_of,
        zoned=zoned,
        can_act=can_act,
        pauses=PAUSES,
    )


def show_one(request: Request) -> Response:
    """One schedule with its history."""
    view = view_of(request)
    name = request.path_params["name"]
    schedule = view.read(
        ("schedule", name),
        lambda: ScheduleSet(view.operator).find(name, last=HISTORY, upcoming=UPCOMING),
    )
    if schedule is None:
        raise HTTPException(
            404, f"No schedule is named {name}: it was deleted, or never published."
        )
    return render(
        request,
        "schedule.html",
        schedule=schedule,
        ticks_of=ticks_of,
        zoned=zoned,
        can_act=can_act,
        lateness=lateness(schedule),
        is_bad=is_bad,
        pauses=PAUSES,
    )


def _week(view: View, schedules: Sequence[ScheduleView]) -> Week:
    """Of the first schedules: each instant is computed."""
    first = [replace(each, next=_firings(each, view.now)) for each in schedules[:ROWS]]
    return week_of(first, view.now, view.zone)


def _firings(schedule: ScheduleView, now: float) -> Sequence[float]:
    soon = schedule.firings(now, 3)
    if len(soon) == 3 and soon[2] - soon[0] < 3600:  # noqa: PLR2004 - s: more often than hourly
        return [soon[0]] * OFTEN
    return schedule.firings(now, OFTEN)


def searched(schedule: ScheduleView) -> str:
    """What a filter looks at: its name, classes and origin."""
    return " ".join([schedule.name, *schedule.classes, schedule.origin, schedule.state]).casefold()


def can_act(schedule: ScheduleView) -> bool:
    """Whether it is ours to pause and to run, and can be read."""
    return not schedule.is_foreign and schedule.state != "unreadable"


def zoned(at: float, timezone: str) -> str:
    """An instant on the clock of a zone: `Mon 2026-11-23 03:00 CET`; seconds where there are some."""
    try:
        zone = ZoneInfo(timezone) if timezone else UTC
    except (KeyError, ValueError, OSError):
        zone = UTC
    moment = datetime.fromtimestamp(at, zone)
    seconds = f":{moment:%S}" if moment.second else ""
    return f"{moment:%a %Y-%m-%d %H:%M}{seconds} {moment:%Z}"


def ticks_of(schedule: ScheduleView, most: int = TICKS) -> list[tuple[str, str, bool]]:
    """Its last occurrences, the newest last: the kind of each, its title, and whether a job of it will not be done."""
    return [_tick(each, schedule.timezone) for each in reversed(schedule.occurrences[:most])]


def lateness(schedule: ScheduleView) -> tuple[float, float] | None:
    """Median and highest seconds from an instant to its enqueuing; None: nothing was enqueued."""
    found = [
        max(0.0, each.late_s)
        for each in schedule.occurrences
        if each.late_s is not None and each.jids
    ]
    return (statistics.median(found), max(found)) if found else None


def is_bad(occurrence: Occurrence) -> bool:
    """Whether a job of it will not be done."""
    return occurrence.outcome in _BAD


def _tick(occurrence: Occurrence, timezone: str) -> tuple[str, str, bool]:
    kind = occurrence.kind
    words = [zoned(occurrence.at, timezone), kind]
    if occurrence.late_s is not None and kind in ("late", "caught up"):
        words.append(f"{duration(occurrence.late_s)} late")
    if occurrence.deliveries > 1:
        words.append(f"delivered {occurrence.deliveries} times")
    if occurrence.outcome:
        words.append(occurrence.outcome)
    sign = "left out" if kind in ("paused", "skipped") else kind
    return sign, ", ".join(words), is_bad(occurrence)


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """What the form asks for, back to the schedule's page."""
    name, action = str(form.get("name", "")), str(form.get("action", ""))
    if action not in _ACTIONS:
        raise HTTPException(
            400, f"The form asks for no known action; there are {', '.join(_ACTIONS)}."
        )
    view = view_of(request)
    schedules = ScheduleSet(view.operator)
    if schedules.find(name, last=1, upcoming=1) is None:
        raise HTTPException(404, f"No schedule is named {name}: it was deleted meanwhile.")
    notice = _ACTIONS[action](schedules, name, form, view)
    return redirect(request, f"/schedules/{name}", notice=notice)


def _run(schedules: ScheduleSet, name: str, form: FormData, _: View) -> str:
    is_counted = form.get("counted") == "1"
    made = schedules.run(name, counted=is_counted)
    how = "in the place of an occurrence" if is_counted else "besides its occurrences"
    count = len(made.jids)
    return f"{name} was run {how}: {count} job{'' if count == 1 else 's'} enqueued, {', '.join(made.jids[:3])}."


def _pause(schedules: ScheduleSet, name: str, form: FormData, view: View) -> str:
    until = view.moment(str(form.get("until", "")))
    seconds = str(form.get("for_s", ""))
    if seconds and not seconds.isdecimal():
        raise HTTPException(400, f"The pause lasts {seconds!r} seconds: that is no number.")
    made = schedules.pause(
        name,
        reason=str(form.get("reason", "")).strip()[:500],
        for_s=float(seconds) if seconds and until is None else None,
        until=until,
    )
    end = (
        f" for {duration(math.ceil(made.until - view.now))}"
        if made.until
        else " until it is resumed"
    )
    return f"{name} is paused{end}. What comes due meanwhile is not caught up."


def _resume(schedules: ScheduleSet, name: str, _: FormData, __: View) -> str:
    if not schedules.resume(name):
        return f"{name} was not paused."
    return f"{name} fires again from now on."


def _skip(schedules: ScheduleSet, name: str, _: FormData, view: View) -> str:
    skipped = schedules.skip(name)
    if not skipped:
        return f"{name} has no further occurrence to skip."
    moment = datetime.fromtimestamp(skipped[0], view.zone)
    return f"{name} does not fire at {absolute(moment, view.zone)}."


_ACTIONS: Final[Mapping[str, Callable[[ScheduleSet, str, FormData, View], str]]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip,
}
