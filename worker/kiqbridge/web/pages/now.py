"""Now: whether all is well, else the worst facts with what to do; then four cards, what comes, who died."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge import seams
from kiqbridge.api import Counts, DeadSet, Operator, ScheduleSet, TopJobs, fetch_facts, judge
from kiqbridge.api.gauges import read_gauges
from kiqbridge.errors import RedisRefused
from kiqbridge.web.context import View, render, view_of
from kiqbridge.web.pages.metrics import FRESH_S, MINUTES, fetch_top
from kiqbridge.web.pages.queues import fetch_history
from kiqbridge.web.plots import Shade, sparkline
from kiqbridge.web.shown import NONE, count, noun, plain, waited

WORST: Final = 3
MORE: Final = 50
"""So many more facts are folded below the worst; the others are counted."""
NEXT: Final = 5
DEATHS: Final = 5
SCHEDULES_FRESH_S: Final = 10.0
CARD_TALL: Final = 56
"""Pixels of the plot of a card."""
_MINUTE_S: Final = 60


class Card(NamedTuple):
    """A number of now: what it counts, what it is made of, the page that shows more, and the plot of its last hour."""

    title: str
    value: str
    note: str
    path: str
    plot: Markup | str


def show(request: Request) -> Response:
    """The first screen."""
    view = view_of(request)
    now = view.read(("now",), lambda: fetch(view))
    facts = now["verdict"].facts

    def draw() -> tuple[float, TopJobs, Mapping[str, Markup]]:
        top, _ = fetch_top(view, "1h")
        plots = _plots(top, now["gauges"]["concurrency"])
        return rate_per_minute(top), top, {**plots, **_latency(view)}

    rate, top, plots = view.read(("plots of now",), draw, FRESH_S)
    return render(
        request,
        "now.html",
        worst=facts[:WORST],
        more=facts[WORST : WORST + MORE],
        rest=max(0, len(facts) - WORST - MORE),
        cards=list(_cards(now, rate, top, plots)),
        marks=[(at, label) for at, label in top.marks.items() if at >= top.buckets[0]],
        **now,
    )


def _cards(
    now: Mapping[str, Any], rate: float, top: TopJobs, plots: Mapping[str, Markup]
) -> Iterator[Card]:
    gauges, queues = now["gauges"], [each for each in now["facts"].queues if each.size]
    slowest = max(queues, key=lambda each: each.latency_s, default=None)
    waiting = f"{count(gauges['jobs_enqueued'])} waiting in {count(len(queues))} {noun(len(queues), 'queue')}"
    if slowest and len(queues) > 1:
        waiting += f", {plain(slowest.name, 40)} the longest"
    longest = waited(slowest.latency_s) if slowest else "0 s"
    yield Card("Latency", longest, waiting, "/queues", plots.get("latency", ""))
    total = sum((each.total for each in top.classes.values()), Counts())
    done = f"{count(total.executions)} {noun(total.executions, 'execution')} in the last hour"
    yield Card("Throughput", f"{count(rate)} / min", done, "/metrics", plots.get("executions", ""))
    failed = (
        f"{count(total.failures)} of them; {count(gauges['jobs_retrying'])} "
        f"{noun(gauges['jobs_retrying'], 'retry', 'retries')}, {count(gauges['jobs_dead'])} dead"
    )
    share = f"{100 * total.failures / (total.executions or 1):.1f} %"
    yield Card("Failures", share, failed, "/retries", plots.get("failures", ""))
    busy, threads = gauges["busy"], gauges["concurrency"]
    used = f"{100 * busy / threads:.0f} %" if threads else NONE
    of = f"{count(busy)} of {count(threads)} {noun(threads, 'thread')} busy"
    yield Card("Utilisation", used, of, "/busy", plots.get("utilisation", ""))


def _latency(view: View) -> Mapping[str, Markup]:
    """The longest wait in each minute, from where it is known on."""
    waits = [
        max((queue.latency for queue in minute.values()), default=0.0)
        for minute in fetch_history(view).values()
    ]
    if len(waits) < 2:  # noqa: PLR2004 - no line
        return {}
    missing = [None] * (MINUTES["1h"] - len(waits))
    return {
        "latency": sparkline([*missing, *waits], label="Longest wait by minute", tall=CARD_TALL)
    }


def _plots(top: TopJobs, threads: int) -> Mapping[str, Markup]:
    """The last hour of each card, by minute, without the minute that still grows."""
    classes = top.classes.values()
    if not classes:
        return {}
    minutes = [
        sum((each.series[at] for each in classes if at in each.series), Counts())
        for at in top.buckets[:-1]
    ]
    span = top.bucket_s * len(minutes)
    marks = [(at - top.buckets[0]) / span for at in top.marks if at >= top.buckets[0]]

    def draw(values: list[float | None], label: str, shade: Shade = "ok") -> Markup:
        return sparkline(
            values, label=f"{label} by minute", tall=CARD_TALL, shade=shade, marks=marks
        )

    capacity = threads * top.bucket_s * 1000
    return {
        "executions": draw([each.executions for each in minutes], "Executions"),
        "failures": draw([each.failures for each in minutes], "Failures", "bad"),
        "utilisation": draw(
            [min(1.0, each.ms / capacity) if capacity else 0.0 for each in minutes],
            "Share of the threads' time that jobs took",
        ),
    }


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
    """Executions a minute in the last five whole minutes, as workers measured them, and of fewer where they began later."""
    first = min((min(each.series) for each in top.classes.values() if each.series), default=0.0)
    buckets = [at for at in top.buckets[-6:-1] if at >= first]
    done = sum(
        each.series[at].executions
        for each in top.classes.values()
        for at in buckets
        if at in each.series
    )
    return done * _MINUTE_S / (len(buckets) * top.bucket_s) if buckets else 0.0
