"""Metrics: what each class did in a span of time, how long it took, and what was deployed meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge import api
from kiqbridge.api.audit import record_audit
from kiqbridge.api.groups import Groups
from kiqbridge.api.metrics import class_histograms
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.job_sets import AT_ONCE, SCREENS, Screen, read_groups
from kiqbridge.web.pages.queues import PAUSES, pause_of
from kiqbridge.web.plots import Series, Shade, fold, heat_map, histogram, sparkline, time_series

MINUTES: Final = {"1h": 60, "4h": 240, "8h": 480}
"""Span → minutes, as long as the counters of a minute are kept."""
HOURS: Final = {"24h": 24, "72h": 72}
"""Span → hours, in steps of ten minutes."""
SPANS: Final = (*MINUTES, *HOURS)
LONGEST: Final = 480
MEASURED: Final = 12
"""Classes whose percentiles are computed for the list: each costs two commands."""
SHOWN: Final = 100
HEATED: Final = 12
FEWEST: Final = 10
"""Steps of a plot."""
FRESH_S: Final = 10.0
"""Workers write measurements every 10 s."""
_SHADES: Final[Mapping[str, Shade]] = {"executions": "ok", "failures": "bad"}


def show(request: Request) -> Response:
    """All classes, those that took the most time first."""
    view = view_of(request)
    span = span_of(request)
    wanted = request.query_params.get("q", "").strip()

    def load() -> tuple[list[api.ClassCounts], Mapping[str, Any], list[Markup], float | None]:
        found, until = fetch_top(view, span)
        classes = [each for name, each in found.classes.items() if wanted.lower() in name.lower()]
        plots = {
            "throughput": throughput(found, classes, title="Executions of all classes"),
            "heat": heat_map(
                found,
                classes[:HEATED],
                title="How long jobs took, against the median of their class",
            ),
        }
        return classes, plots, [_trend(each, found) for each in classes[:SHOWN]], until

    # Of one reading, so that rows and plots agree; plots cost more than what they are made of.
    classes, plots, trends, until = view.read(("metrics", span, wanted), load, FRESH_S)
    minutes = MINUTES.get(span, LONGEST)
    measured = tuple(each.job_class for each in classes[:MEASURED])
    took = view.read(
        ("durations", minutes, measured),
        lambda: class_histograms(measured, minutes, operator=view.operator),
        FRESH_S,
    )
    return render(
        request,
        "metrics.html",
        span=span,
        spans=SPANS,
        search={
            "path": "/metrics",
            "what": "classes",
            "q": wanted,
            "hint": "a part of the name",
            "more": {"span": span},
        },
        wanted=wanted,
        rows=list(zip(classes, trends, strict=False)),
        took=took,
        total=len(classes),
        took_span=_took_span(span),
        measured=MEASURED,
        until=until,
        **plots,
    )


def show_class(request: Request) -> Response:
    """One class."""
    view = view_of(request)
    span = span_of(request)
    name = request.path_params["job_class"]
    minutes = MINUTES.get(span, LONGEST)

    def load() -> tuple[api.ClassCounts, api.Histogram, Markup]:
        top, _ = fetch_top(view, span)
        measured = api.job_metrics(name, minutes, operator=view.operator)
        known = measured.counts.job_class
        nothing = api.ClassCounts(job_class=known, total=type(measured.counts.total)(), series={})
        counts = top.classes.get(known, nothing)
        plot = throughput(top, [counts], title=f"Executions of {known}")
        return counts, measured.histogram, plot

    counts, took, plot = view.read(("class", name, span), load, FRESH_S)
    return render(
        request,
        "metrics_class.html",
        name=name,
        span=span,
        spans=SPANS,
        counts=counts,
        took=took,
        took_span=_took_span(span),
        plot=plot,
        where=str(api.Filter.of_class(name)),
        pause=view.paused("class").get(name),
        pauses=PAUSES,
        errors=_errors_of(view, name) if counts.total.failures else [],
        bars=histogram(
            took, name="took", title=f"How long executions took, in the last {_took_span(span)}"
        )
        if took.count
        else "",
    )


def _errors_of(view: View, name: str) -> list[tuple[Screen, Groups]]:
    """Of its jobs among the next retries, and among the last that died."""
    found = [
        (screen, read_groups(view, screen.kind(view.operator), AT_ONCE, 5.0).of(name))
        for screen in SCREENS.values()
        if screen.has_errors
    ]
    return [each for each in found if each[1].groups]


@requires("operator")
def post(request: Request, form: FormData) -> Response:
    """Pause the class, or resume it."""
    view, name = view_of(request), request.path_params["job_class"]
    operator, action, path = view.operator, form.get("action"), f"/metrics/{name}"
    if action == "pause":
        reason, for_s, words = pause_of(form)
        operator.client.pause_class(name, reason=reason, by=operator.by, for_s=for_s)
        record_audit(operator, "pause", f"class:{name}", reason)
        return redirect(request, path, notice=f"{name} is paused {words}.")
    if action != "resume":
        raise HTTPException(400, f"{action!r} is nothing that a class can do.")
    if not operator.client.resume_class(name):
        return redirect(request, path, notice=f"{name} was not paused.")
    record_audit(operator, "resume", f"class:{name}")
    return redirect(request, path, notice=f"{name} runs again.")


def span_of(request: Request) -> str:
    """The span that the address asks for, else an hour."""
    span = request.query_params.get("span", "")
    return span if span in SPANS else SPANS[0]


def fetch_top(view: View, span: str) -> tuple[api.TopJobs, float | None]:
    """What all classes did, shared by all who look, and up to when that is complete."""

    def load() -> tuple[api.TopJobs, float | None]:
        until = api.complete_until(
            view.operator
        )  # before: what is written meanwhile is not claimed
        minutes, hours = MINUTES.get(span, 0), HOURS.get(span)
        return begun(api.top_jobs(minutes, hours=hours, operator=view.operator)), until

    return view.read(("top jobs", span), load, FRESH_S)


def begun(found: api.TopJobs) -> api.TopJobs:
    """The same from where anything was measured on, so that no plot begins with nothing."""
    first = min((min(each.series) for each in found.classes.values() if each.series), default=0.0)
    known = [at for at in found.buckets if at >= first]
    return replace(found, buckets=found.buckets[-max(len(known), FEWEST) :])


def throughput(found: api.TopJobs, classes: Sequence[api.ClassCounts], *, title: str) -> Markup:
    """Executions and failures over the span, and what was deployed.

    The bucket that still grows is not drawn, but counts in the sum, which is that of the lists and cards.
    """
    nothing = [0] * len(found.buckets[:-1])
    series = []
    for name, shade in _SHADES.items():
        rows = [_values(each, found, name) for each in classes]
        total = sum(getattr(each.total, name) for each in classes)
        series.append(
            Series(name, list(map(sum, zip(nothing, *rows, strict=True))), total, shade, True)
        )
    return time_series(series, found, name="throughput", title=title)


def _took_span(span: str) -> str:
    """Durations are kept for eight hours."""
    return f"{MINUTES.get(span, LONGEST) // 60} h"


def _values(counts: api.ClassCounts, found: api.TopJobs, name: str = "executions") -> list[int]:
    """By bucket, without the last one: it still grows, and would be drawn as a fall."""
    series, value_of, nothing = counts.series, attrgetter(name), api.Counts()
    return [value_of(series.get(at, nothing)) for at in found.buckets[:-1]]


def _trend(counts: api.ClassCounts, found: api.TopJobs) -> Markup:
    [folded], _ = fold([Series("", _values(counts, found))], found.bucket_s)
    return sparkline(folded.values, label=f"Executions of {counts.job_class} over the span")
