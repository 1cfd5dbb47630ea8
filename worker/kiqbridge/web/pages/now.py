"""Now: whether all is well, else the worst facts with what to do; then counts, throughput, what comes, who died."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kiqbridge import seams
from kiqbridge.api import DeadSet, Operator, ScheduleSet, TopJobs, fetch_facts, fetch_history, judge
from kiqbridge.api.gauges import read_gauges
from kiqbridge.errors import RedisRefused
from kiqbridge.web.context import View, render, view_of
from kiqbridge.web.pages.metrics import FRESH_S, fetch_top, throughput

WORST: Final = 3
MORE: Final = 50
"""So many more facts are folded below the worst; the others are counted."""
NEXT: Final = 5
DEATHS: Final = 5
SCHEDULES_FRESH_S: Final = 10.0
_MINUTE_S: Final = 60


def show(request: Request) -> Response:
    """The first screen."""
    view = view_of(request)
    now = view.read(("now",), lambda: fetch(view))
    facts = now["verdict"].facts

    def draw() -> tuple[float, str]:
        top, _ = fetch_top(view, "1h")
        classes = list(top.classes.values())
        plot = throughput(top, classes, title="Executions in the last hour") if classes else ""
        return rate_per_minute(top), plot

    rate, plot = view.read(("plot of now",), draw, FRESH_S)
    return render(
        request,
        "now.html",
        worst=facts[:WORST],
        more=facts[WORST : WORST + MORE],
        rest=max(0, len(facts) - WORST - MORE),
        rate=rate,
        plot=plot,
        **now,
    )


def fetch(view: View) -> Mapping[str, Any]:
    """All but the plot; what fires next is read less often, since each expression is computed."""
    facts = fetch_facts(view.operator)
    schedules = view.read(
        ("next schedules",), lambda: ScheduleSet(view.operator).fetch(last=1), SCHEDULES_FRESH_S
    )
    return {
        "facts": facts,
        "gauges": read_gauges(facts),
        "verdict": judge(facts),
        "parts": list(_parts(view.operator)),
        "today": fetch_history(1, operator=view.operator),
        "deaths": DeadSet(view.operator).page(1, DEATHS).rows,
        "upcoming": [each for each in schedules if each.next_at is not None][:NEXT],
    }


def _parts(operator: Operator) -> Iterator[tuple[str, object]]:
    """What features show here; a key of another type must not hide the rest."""
    for show in seams.found("now"):
        with contextlib.suppress(RedisRefused):
            template, part = show(operator)
            yield template, part


def rate_per_minute(top: TopJobs) -> float:
    """Executions a minute in the last five whole minutes, as workers measured them."""
    buckets = top.buckets[-6:-1]
    done = sum(
        each.series[at].executions
        for each in top.classes.values()
        for at in buckets
        if at in each.series
    )
    return done * _MINUTE_S / (len(buckets) * top.bucket_s) if buckets else 0.0
