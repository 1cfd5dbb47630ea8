"""Counts over time: lines and areas, with marks of deployments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from markupsafe import Markup

from kiqbridge.web.plots.drawing import (
    figure,
    full_time,
    grid,
    grid_labels,
    join,
    number,
    percent,
    table,
    tag,
    time_label,
    time_ticks,
    value_ticks,
)

AT_MOST: Final = 120
"""Points of a plot; with more, neighbours are added up."""

_ACROSS: Final = 1000
_TOP, _INNER, _BELOW = 32, 164, 24
_EDGE: Final = 0.06
"""Share of the width at either end within which a label is not centred."""

Shade = Literal["ok", "bad", "1", "2", "3", "4", "5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A row of counts.

    Attributes:
        name: as the legend shows it.
        values: a count for each step of time.
        total: the sum that the legend shows, where it is more than what is drawn; None = that of `values`.
        shade: the class of its colour and dashes, `plot-SHADE`.
        is_area: the ground below its line is filled.
    """

    name: str
    values: Sequence[float]
    shade: Shade = "ok"
    is_area: bool = False
    total: float | None = None

    @property
    def sum(self) -> float:
        """What the legend shows."""
        return sum(self.values) if self.total is None else self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment, epoch seconds, and what happened then."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """What is common to all that is drawn."""

    starts_at: float
    step_s: float
    steps: int
    top_value: float

    @property
    def ends_at(self) -> float:
        return self.starts_at + self.steps * self.step_s

    def share(self, at: float) -> float:
        """Of the width."""
        return (at - self.starts_at) / (self.ends_at - self.starts_at)

    def drop(self, value: float) -> float:
        """Pixels from the ground's upper edge."""
        return _INNER * (1 - value / self.top_value)


def time_series(
    series: Sequence[Series],
    *,
    name: str,
    title: str,
    starts_at: float,
    step_s: float,
    marks: Sequence[Mark] = (),
) -> Markup:
    """A figure: legend, plot, list of marks, and the numbers as a folded table.

    Args:
        series: of the same length, at least one value each; drawn in this order.
        name: of the plot on its page, for ids.
        title: what it shows.
        starts_at: epoch seconds at which the first step begins.
        step_s: seconds of a step.
        marks: deployments; those outside of the plot are left out.
    """
    folded, step_s = fold(series, step_s)
    steps = len(folded[0].values)
    ticks = value_ticks(max((max(each.values, default=0) for each in folded), default=0))
    frame = _Frame(starts_at=starts_at, step_s=step_s, steps=steps, top_value=ticks[-1])
    seen = [mark for mark in marks if frame.starts_at <= mark.at < frame.ends_at]
    heads = ("From (UTC)", *(each.name for each in folded))
    rows = (
        (full_time(at), *(f"{each.values[place]:,.0f}" for each in folded))
        for place, at in _starts(frame)
    )
    return figure(
        [
            *grid(ticks, _TOP, _INNER),
            _shapes(frame, folded),
            *grid_labels(ticks, _TOP, _INNER),
            *_marks(frame, seen),
            *_time_axis(frame),
            *_hits(frame, folded),
        ],
        name=name,
        title=title,
        description=f"executions per {_span(step_s)} from {full_time(frame.starts_at)} to "
        f"{full_time(frame.ends_at)} UTC: "
        + "; ".join(f"{each.name} {each.sum:,.0f}" for each in folded)
        + (f"; {len(seen)} marks" if seen else ""),
        height=_TOP + _INNER + _BELOW,
        caption=_legend(title, folded, step_s),
        below=join([_list_of(seen), table(title, heads, rows)]),
    )


def fold(series: Sequence[Series], step_s: float) -> tuple[list[Series], float]:
    """The same in at most `AT_MOST` steps, each the sum of its parts; the last one may have fewer."""
    steps = len(series[0].values)
    together = -(-steps // AT_MOST)
    if together <= 1:
        return list(series), step_s
    starts = range(0, steps, together)
    folded = [
        replace(each, values=[sum(each.values[at : at + together]) for at in starts])
        for each in series
    ]
    return folded, step_s * together


def _shapes(frame: _Frame, series: Sequence[Series]) -> Markup:
    """In a frame of its own that is stretched to the width; the style sheet keeps its lines thin."""
    return tag(
        "svg",
        *(_shape(frame, each) for each in series),
        x="0",
        y=_TOP,
        width="100%",
        height=_INNER,
        viewBox=f"0 0 {_ACROSS} {_INNER}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _shape(frame: _Frame, series: Series) -> Markup:
    points = [
        f"{number(_ACROSS * (place + 0.5) / frame.steps)},{number(frame.drop(value))}"
        for place, value in enumerate(series.values)
    ]
    first, last = (number(_ACROSS * (place + 0.5) / frame.steps) for place in (0, frame.steps - 1))
    line = tag("polyline", points=" ".join(points), class_=f"plot-line plot-{series.shade}")
    if not series.is_area:
        return line
    around = f"{first},{_INNER} {' '.join(points)} {last},{_INNER}"
    return join([tag("polygon", points=around, class_=f"plot-area plot-{series.shade}"), line])


def _marks(frame: _Frame, marks: Sequence[Mark]) -> Iterator[Markup]:
    for place, mark in enumerate(marks, 1):
        x = frame.share(mark.at)
        at = percent(x)
        anchor = "end" if x > 1 - _EDGE else "start" if x < _EDGE else "middle"
        yield tag(
            "g",
            tag("title", f"{full_time(mark.at)} UTC: {mark.label}"),
            tag("line", x1=at, x2=at, y1=_TOP, y2=_TOP + _INNER),
            tag("text", f"D{place}", x=at, y=12, text_anchor=anchor),
            class_="plot-mark",
        )


def _time_axis(frame: _Frame) -> Iterator[Markup]:
    base = _TOP + _INNER
    for at in time_ticks(frame.starts_at, frame.ends_at):
        share = frame.share(at)
        if share > 1 - 2.5 * _EDGE:  # there it says UTC, on a phone as well
            continue
        anchor = "start" if share < _EDGE else "middle"
        x = percent(share)
        yield tag("line", x1=x, x2=x, y1=base, y2=base + 4, class_="plot-zero")
        yield tag("text", time_label(at), x=x, y=base + 17, text_anchor=anchor, class_="plot-label")
    yield tag("text", "UTC", x="100%", y=base + 17, text_anchor="end", class_="plot-label")


def _hits(frame: _Frame, series: Sequence[Series]) -> Iterator[Markup]:
    """Where the mouse rests, what was counted then."""
    for place, at in _starts(frame):
        counts = ", ".join(f"{each.name} {each.values[place]:,.0f}" for each in series)
        yield tag(
            "rect",
            tag("title", f"{full_time(at)} UTC, {_span(frame.step_s)}: {counts}"),
            x=percent(place / frame.steps),
            width=percent(1 / frame.steps),
            y=_TOP,
            height=_INNER,
            class_="plot-hit",
        )


def _starts(frame: _Frame) -> Iterator[tuple[int, float]]:
    return ((place, frame.starts_at + place * frame.step_s) for place in range(frame.steps))


def _legend(title: str, series: Sequence[Series], step_s: float) -> list[Markup]:
    entries = [
        tag(
            "li",
            tag(
                "svg",
                tag("line", x1="0", x2="22", y1="6", y2="6", class_=f"plot-line plot-{each.shade}"),
                width=22,
                height=12,
                aria_hidden="true",
                class_="plot-key",
            ),
            f" {each.name} ",
            tag("span", f"{each.sum:,.0f}", class_="number"),
        )
        for each in series
    ]
    return [
        tag("span", f"{title}, per {_span(step_s)}", class_="plot-title"),
        tag("ul", *entries, class_="plot-legend"),
    ]


def _list_of(marks: Sequence[Mark]) -> Markup:
    if not marks:
        return Markup("")
    entries = [
        tag("li", tag("b", f"D{place}"), f" {full_time(mark.at)} UTC: {mark.label}")
        for place, mark in enumerate(marks, 1)
    ]
    return tag("ul", *entries, class_="plot-marks", aria_label="Deployments")


def _span(seconds: float) -> str:
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:g} s" if seconds != 1 else "second"
    minutes = seconds / 60
    if minutes % 60 == 0:
        return "hour" if minutes == 60 else f"{minutes / 60:g} hours"  # noqa: PLR2004 - an hour
    return "minute" if minutes == 1 else f"{minutes:g} minutes"
