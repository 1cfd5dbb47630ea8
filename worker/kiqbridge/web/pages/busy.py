"""Busy: what runs now in Python and Ruby, the longest first; what was taken and not begun; what must run alone."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kiqbridge import api, seams
from kiqbridge.api.works import fetch_stacks
from kiqbridge.web.context import render, view_of
from kiqbridge.web.pages.processes import compare

LONG_S: Final = api.Limits().job_s
"""Seconds from which a running job is marked; the same as of the verdict."""
SHOWN: Final = 200
HELD_SHOWN: Final = 50


def show(request: Request) -> Response:
    """All that runs."""
    view = view_of(request)
    found = view.read(("busy",), lambda: fetch(view.operator))
    return render(
        request,
        "busy.html",
        busy=found,
        running=compare(view, found["work"][:SHOWN]),
        held=found["held"][:HELD_SHOWN],
        long_s=LONG_S,
        long_count=sum(view.now - each.run_at > LONG_S for each in found["work"]),
    )


def fetch(operator: api.Operator) -> Mapping[str, Any]:
    """What runs, by heartbeats, the longest running first; and what our workers hold besides."""
    work = list(api.WorkSet(operator))
    held = [each for each in api.fetch_in_flight(operator) if not each.begun]
    running = {each.job.jid for each in work}
    jids = [each.job.jid for each in work[:SHOWN]]
    return {
        "work": work,
        "processes": {each.identity: each for each in api.ProcessSet(operator)},
        "parts": [show(operator, jids) for show in seams.found("busy")],
        "stacks": fetch_stacks(work[:SHOWN], operator),
        "held": [each for each in held if each.job.jid not in running],
        "suspects": api.fetch_suspects(operator, most=HELD_SHOWN),
    }
