"""Schedules: when each fires next, in its zone and the viewer's, and what became of its last occurrences."""

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Page, ScheduleSet, ScheduleView
from kiqbridge.api.occurrences import Occurrence
from kiqbridge.api.schedules import RUBY
from kiqbridge.web.context import render, view_of
from kiqbridge.web.pages import schedule_actions
from kiqbridge.web.plots import Tick, TickState, tick_legend, tick_strip
from kiqbridge.web.shown import duration

TICKS: Final = 20
ROWS: Final = 50
HISTORY: Final = 200
UPCOMING: Final = 10
FRESH_S: Final = 3.0
_SIGNS: Final[Mapping[str, TickState]] = {"paused": "left out", "skipped": "left out"}
_BAD: Final = ("dead", "discarded", "expired")


def show(request: Request) -> Response:
    """All schedules, the next to fire first."""
    view = view_of(request)
    wanted = request.query_params.get("name", "").strip()
    found = view.read(("schedules",), lambda: ScheduleSet(view.operator).fetch(last=TICKS), FRESH_S)
    matching = [each for each in found if wanted.casefold() in searched(each)]
    number = request.query_params.get("page", "1")
    page = page_of(matching, int(number) if number.isdecimal() else 1)
    return render(
        request,
        "schedules.html",
        page=page,
        total=len(found),
        wanted=wanted,
        strip=strip,
        legend=tick_legend(),
        zoned=zoned,
        can_act=can_act,
        pauses=schedule_actions.PAUSES,
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
        strip=strip(schedule, most=3 * TICKS),
        legend=tick_legend(),
        zoned=zoned,
        can_act=can_act,
        lateness=lateness(schedule),
        is_bad=is_bad,
        pauses=schedule_actions.PAUSES,
    )


def searched(schedule: ScheduleView) -> str:
    """What a filter looks at: its name, classes and origin."""
    return " ".join([schedule.name, *schedule.classes, schedule.origin, schedule.state]).casefold()


def page_of(schedules: Sequence[ScheduleView], number: int) -> Page[ScheduleView]:
    """A page of the list."""
    first = (max(1, number) - 1) * ROWS
    return Page(
        number=max(1, number),
        size=ROWS,
        total=len(schedules),
        rows=schedules[first : first + ROWS],
    )


def can_act(schedule: ScheduleView) -> bool:
    """Whether it is ours to pause and to run, and can be read."""
    return schedule.origin != RUBY and schedule.state != "unreadable"


def zoned(at: float, timezone: str) -> str:
    """An instant on the clock of a zone: `Mon 2026-11-23 03:00 CET`; seconds where there are some."""
    try:
        zone = ZoneInfo(timezone) if timezone else UTC
    except (KeyError, ValueError, OSError):
        zone = UTC
    moment = datetime.fromtimestamp(at, zone)
    seconds = f":{moment:%S}" if moment.second else ""
    return f"{moment:%a %Y-%m-%d %H:%M}{seconds} {moment:%Z}"


def strip(schedule: ScheduleView, most: int = TICKS) -> Markup:
    """Its last occurrences as signs, the newest at the right."""
    return tick_strip(
        [_tick(each, schedule.timezone) for each in reversed(schedule.occurrences[:most])],
        label=schedule.name,
    )


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


def _tick(occurrence: Occurrence, timezone: str) -> Tick:
    state = _SIGNS.get(occurrence.kind, occurrence.kind)
    words = [zoned(occurrence.at, timezone), occurrence.kind]
    if occurrence.late_s is not None and occurrence.kind in ("late", "caught up"):
        words.append(f"{duration(occurrence.late_s)} late")
    if occurrence.deliveries > 1:
        words.append(f"delivered {occurrence.deliveries} times")
    if occurrence.outcome:
        words.append(occurrence.outcome)
    return Tick(state=state, title=", ".join(words), is_bad=is_bad(occurrence))  # type: ignore[arg-type]


ROUTES: Final = [
    Route("/schedules", show),
    *schedule_actions.ROUTES,
    Route("/schedules/{name:path}", show_one),
]
