"""Acting on a schedule: run it now, pause and resume it, skip its next occurrence."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import ScheduleSet
from kiqbridge.web.context import View, redirect, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.shown import absolute, duration

PAUSES: Final = (
    ("", "until it is resumed"),
    ("3600", "for 1 hour"),
    ("14400", "for 4 hours"),
    ("86400", "for 1 day"),
    ("604800", "for 1 week"),
)
"""Seconds, as a form has them, and what they are called."""


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
    until = _moment(str(form.get("until", "")), view)
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


def _moment(text: str, view: View) -> datetime | None:
    """What a field for date and time holds, on the viewer's clock."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=view.zone)
    except ValueError:
        raise HTTPException(400, f"The pause ends at {text!r}: that is no date and time.") from None


_ACTIONS: Final[Mapping[str, Callable[[ScheduleSet, str, FormData, View], str]]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip,
}
ROUTES: Final = [Route("/schedules/act", act, methods=["POST"])]
