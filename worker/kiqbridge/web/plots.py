"""Plots as SVG: numbers become places here, and markup in templates/plots.html.

A plot carries no style of its own: classes and the style sheet give its colours, so that it follows the colour scheme
and a strict Content-Security-Policy. It never reads Redis or the clock. Horizontal places are percentages and vertical
ones pixels: a plot is as wide as its place, and its text keeps the size of the page's text, on a phone as well.
"""

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from markupsafe import Markup

from kiqbridge.api import ClassCounts, Counts, Histogram, TopJobs, bucket_label
from kiqbridge.web.context import build_templates
from kiqbridge.web.shown import milliseconds, percentile
from kiqbridge.wire.measures import BOUNDS_MS, BUCKETS

AT_MOST: Final = 120
"""Points of a series; with more, neighbours are added up."""
HEAT_STEPS: Final = 48
HEAT_BOUNDS: Final = (0.8, 1.25, 2.0)
"""Of the median: where the next shade begins."""
HEAT_WORDS: Final = ("faster", "as usual", "slower", "twice as long")
_TALL: Final = 164
_STEPS_S: Final = tuple(
    60 * minutes
    for minutes in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10080)
)
_EDGE: Final = 0.06
"""Share of the width at either end within which a label is not centred."""

Shade = Literal["ok", "bad"]


@dataclass(frozen=True, slots=True)
class Series:
    """A row of counts.

    Attributes:
        name: as the legend shows it.
        values: a count for each step of time.
        total: the sum that the legend shows: it may be more than what is drawn.
        shade: the class of its colour and dashes, `plot-SHADE`.
        is_area: the ground below its line is filled.
    """

    name: str
    values: Sequence[float]
    total: float = 0
    shade: Shade = "ok"
    is_area: bool = False


def time_series(series: Sequence[Series], span: TopJobs, *, name: str, title: str) -> Markup:
    """Counts over time, as a figure: legend, plot, list of deployments.

    Args:
        series: of the same length, at least one value each; drawn in this order.
        span: the first bucket begins the first step; deployments outside of the plot are left out.
        name: of the plot on its page, for ids.
        title: what it shows.
    """
    starts_at = span.buckets[0]
    folded, step_s = fold(series, span.bucket_s)
    starts = [starts_at + place * step_s for place in range(len(folded[0].values))]
    ends_at = starts[-1] + step_s
    ticks = value_ticks(max(max(each.values) for each in folded))
    rows = [
        (full_time(at), *(f"{each.values[place]:,.0f}" for each in folded))
        for place, at in enumerate(starts)
    ]
    xs = [f"{1000 * (place + 0.5) / len(starts):.4g}" for place in range(len(starts))]

    def place(at: float, last: float) -> tuple[str, str]:
        share = (at - starts_at) / (ends_at - starts_at)
        return percent(share), "start" if share < _EDGE else "end" if share > last else "middle"

    return _macro(
        "time_series",
        name,
        title,
        span="minute" if step_s == 60 else f"{step_s / 60:g} minutes",  # noqa: PLR2004 - of one
        series=[
            (each, [f"{x},{_height(v, ticks)}" for x, v in zip(xs, each.values, strict=True)])
            for each in folded
        ],
        grid=_grid(ticks),
        marks=[
            (*place(at, 1 - _EDGE), full_time(at), label)
            for at, label in span.marks.items()
            if starts_at <= at < ends_at
        ],
        axis=[(*place(at, 0.99), time_label(at)) for at in time_ticks(starts_at, ends_at)],
        ends_at=full_time(ends_at),
        rows=rows,
        width=percent(1 / len(rows)),
        hits=[percent(place / len(rows)) for place in range(len(rows))],
    )


def fold(series: Sequence[Series], step_s: float) -> tuple[list[Series], float]:
    """The same in at most `AT_MOST` steps, each the sum of its parts; the last one may have fewer."""
    steps = len(series[0].values)
    together = -(-steps // AT_MOST)
    return [
        replace(
            each, values=[sum(each.values[at : at + together]) for at in range(0, steps, together)]
        )
        for each in series
    ], step_s * together


def histogram(took: Histogram, *, name: str, title: str) -> Markup:
    """How long executions took, as a figure: 26 bars with the percentiles marked."""
    ticks = value_ticks(max(took.counts))
    known = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)]
    return _macro(
        "histogram",
        name,
        title,
        grid=_grid(ticks),
        bars=[
            (_beside((at + 0.12) / BUCKETS), _beside(at / BUCKETS), label, f"{count:,}", tall)
            for at, (count, label) in enumerate(zip(took.counts, bucket_labels(), strict=True))
            for tall in [max(1.0, _TALL * count / ticks[-1]) if count else 0]
        ],
        widths=(percent(0.7 / BUCKETS), percent(0.92 / BUCKETS)),
        percentiles=[
            (_beside(place), place > 0.7, f"{key} {percentile(took, share)}")  # noqa: PLR2004 - no room
            for key, share in known
            if (value := took.percentile(share)) is not None
            for place in [place_of(value)]
        ],
        axis=[(_beside((at + 1) / BUCKETS), bucket_label(at)) for at in range(len(BOUNDS_MS))],
        total=f"{took.count:,}",
    )


def _beside(share: float) -> str:
    """A place on the width that the labels of the grid leave, as a share of all of it."""
    return percent(0.07 + 0.93 * share)


def bucket_labels() -> list[str]:
    """What each bucket holds, in words: `below 20 ms`, `20 ms to 30 ms`, `5 min 35 s or more`."""
    edges = [milliseconds(bound) for bound in BOUNDS_MS]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    return [f"below {edges[0]}", *between, f"{edges[-1]} or more"]


def place_of(value_ms: float) -> float:
    """Where a duration lies, as a share of the width: within its bucket by its value, beyond all in the middle."""
    low = 0.0
    for place, high in enumerate(BOUNDS_MS):
        if value_ms < high:
            return (place + (value_ms - low) / (high - low)) / BUCKETS
        low = high
    return (BUCKETS - 0.5) / BUCKETS


def sparkline(
    values: Sequence[float | None],
    *,
    label: str,
    tall: int = 24,
    shade: Shade = "ok",
    marks: Sequence[float] = (),
) -> Markup:
    """A short history, the newest at the right.

    Args:
        values: at least one; None at the begin: nothing was known then, and nothing is drawn.
        label: the same in words.
        tall: pixels; more than 24 fill the width of their place.
        shade: of its line and ground.
        marks: where deployments were, as shares of the width.
    """
    top = max((value for value in values if value is not None), default=0) or 1
    last = max(1, len(values) - 1)
    points = [
        f"{100 * place / last:.4g},{2 + 21 * (1 - value / top):.4g}"
        for place, value in enumerate(values)
        if value is not None
    ]
    places = [f"{100 * share:.4g}" for share in marks]
    return _macro("sparkline", points or ["0,23"], label, tall, shade, places)


def heat_map(found: TopJobs, classes: Sequence[ClassCounts], *, title: str) -> Markup:
    """How long the jobs of classes took over time, each against its own median; empty if none has succeeded."""
    buckets = found.buckets[:-1]
    together = -(-len(buckets) // HEAT_STEPS)
    rows = []
    for each in classes:
        steps = [
            sum((each.series[at] for at in part if at in each.series), Counts()).average_ms
            for part in (buckets[at : at + together] for at in range(0, len(buckets), together))
        ]
        known = [value for value in steps if value]
        if known:
            median = statistics.median(known)
            shades = [
                bisect.bisect(HEAT_BOUNDS, value / median) + 1 if value else 0 for value in steps
            ]
            slow = sum(shade > 2 for shade in shades)  # noqa: PLR2004 - the first of the slow ones
            rows.append((each.job_class, milliseconds(median), _runs_of(shades), slow))
    count = -(-len(buckets) // together)
    begin, length = buckets[0], found.bucket_s * len(buckets)
    marks = [f"{count * (at - begin) / length:.4g}" for at in found.marks if at >= begin]
    return _macro("heat_map", title, rows, count, marks, HEAT_WORDS) if rows else Markup("")


def _runs_of(shades: Sequence[int]) -> list[tuple[int, int, int]]:
    """First place, length and value of each run of equal values."""
    runs, place = [], 0
    for shade, same in itertools.groupby(shades):
        length = len(list(same))
        runs.append((place, length, shade))
        place += length
    return runs


def value_ticks(most: float) -> list[float]:
    """Round whole numbers from 0 to at least `most`, about four steps of 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(
        1.0, next(power * each for each in (1, 2, 5, 10) if power * each >= rough * (1 - 1e-9))
    )
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(first: float, last: float) -> list[int]:
    """Round times of UTC from `first` to `last` (epoch seconds), at most seven."""
    step = next((each for each in _STEPS_S if each >= (last - first) / 6), _STEPS_S[-1])
    while (last - first) / step > 6:  # noqa: PLR2004 - steps, so seven ticks
        step *= 2
    return list(range(math.ceil(first / step) * step, math.floor(last) + 1, step))


def percent(share: float) -> str:
    """A share of 1 as SVG writes a percentage: `37.5%`."""
    return f"{100 * share:.4g}%"


def time_label(at: float) -> str:
    """`14:05`, and at midnight the day: `22 Nov`; UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment:%H:%M}" if moment.hour or moment.minute else f"{moment.day} {moment:%b}"


def full_time(at: float) -> str:
    """`2026-11-22 14:05`, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def value_label(value: float) -> str:
    """`950`, `1.2k`, `43k`, `1.1M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:g}"


def _grid(ticks: Sequence[float]) -> list[tuple[str, str]]:
    return [(_height(value, ticks), value_label(value)) for value in ticks]


def _height(value: float, ticks: Sequence[float]) -> str:
    """Pixels from the ground's upper edge."""
    return f"{_TALL * (1 - value / ticks[-1]):.4g}"


def _macro(name: str, *given: Any, **more: Any) -> Markup:
    made: Markup = getattr(build_templates().get_template("plots.html").module, name)(
        *given, **more
    )
    return made
