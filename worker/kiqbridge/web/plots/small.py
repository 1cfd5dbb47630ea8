"""Plots within a row of a table: a share as a bar, a short history as a line, the last firings of a schedule as signs.

Each state of a firing has a shape of its own besides its colour.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

from kiqbridge.web.plots.drawing import number, percent, tag

TickState = Literal["on time", "late", "duplicate", "missed", "caught up", "left out"]
TICK_STATES: Final[dict[TickState, str]] = {
    "on time": "on time",
    "late": "late",
    "duplicate": "delivered again, and suppressed",
    "missed": "missed",
    "caught up": "missed at first, then caught up",
    "left out": "paused or skipped",
}
"""State → what it means."""

_CELL: Final = 16


def _circle(radius: float) -> str:
    return f"M{8 - radius} 7 a{radius} {radius} 0 1 0 {2 * radius} 0 a{radius} {radius} 0 1 0 {-2 * radius} 0 Z"


_SIGNS: Final[dict[TickState, Sequence[tuple[str, str]]]] = {
    "on time": [("tick-fill", _circle(4.5))],
    "late": [("tick-fill", "M8 2 L13 11.5 H3 Z")],
    "duplicate": [("tick-line", _circle(5.0)), ("tick-fill", _circle(2.2))],
    "missed": [("tick-line", "M4 3 L12 11 M12 3 L4 11")],
    "caught up": [("tick-fill", "M8 1.5 L13 7 L8 12.5 L3 7 Z")],
    "left out": [("tick-line", "M4 7 H12")],
}
"""State → classes and paths of its sign."""
_WIDE, _TALL = 100, 24
_BAR: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One firing.

    Attributes:
        state: how it came.
        title: what is shown when the mouse rests on it: when, how late, by which clock, how its jobs ended.
        is_bad: a job of it died.
    """

    state: TickState
    title: str
    is_bad: bool = False


def tick_strip(ticks: Sequence[Tick], *, label: str) -> Markup:
    """The signs from left to right; `label` is whose they are, for readers that see no picture."""
    if not ticks:
        return tag("span", "none yet", class_="quiet")
    counts = Counter(tick.state for tick in ticks)
    words = ", ".join(
        f"{counts[state]} {words}" for state, words in TICK_STATES.items() if counts[state]
    )
    dead = sum(tick.is_bad for tick in ticks)
    return tag(
        "svg",
        *(_cell(place, tick) for place, tick in enumerate(ticks)),
        class_="ticks",
        width=_CELL * len(ticks),
        height=_CELL,
        viewBox=f"0 0 {_CELL * len(ticks)} {_CELL}",
        role="img",
        aria_label=f"{label}: {words}" + (f"; {dead} with a job that died" if dead else ""),
    )


def tick_legend() -> Markup:
    """What the signs mean."""
    entries = [
        tag(
            "li",
            tag(
                "svg",
                _cell(0, Tick(state=state, title=words)),
                class_="ticks",
                width=_CELL,
                height=_CELL,
                viewBox=f"0 0 {_CELL} {_CELL}",
                aria_hidden="true",
            ),
            f" {words}",
        )
        for state, words in TICK_STATES.items()
    ]
    return tag("ul", *entries, class_="plot-legend tick-legend")


def _cell(place: int, tick: Tick) -> Markup:
    """A sign within 12 by 12 pixels, and below it a bar if a job died."""
    parts = [
        tag("title", tick.title),
        tag("rect", x=0, y=0, width=_CELL, height=_CELL, class_="plot-hit"),
        *(tag("path", d=d, class_=class_) for class_, d in _SIGNS[tick.state]),
    ]
    if tick.is_bad:
        parts.append(tag("rect", x=4, y=14, width=8, height=2, class_="tick-dead"))
    return tag(
        "g",
        *parts,
        class_=f"tick tick-{tick.state.replace(' ', '-')}",
        transform=f"translate({place * _CELL})",
    )


def meter(
    share: float,
    *,
    label: str,
    shade: Literal["ok", "warn"],
) -> Markup:
    """A share of 1 as a horizontal bar as wide as its place; more than 1 is drawn as 1.

    Args:
        share: what is drawn.
        label: the same in words.
        shade: its colour's class.
    """
    drawn = min(1.0, max(0.0, share))
    return tag(
        "svg",
        tag("title", label),
        tag("rect", width="100%", height=_BAR, rx=4, class_="meter-ground"),
        tag("rect", width=percent(drawn), height=_BAR, rx=4, class_=f"meter-fill meter-{shade}"),
        class_="meter",
        width="100%",
        height=_BAR,
        role="img",
        aria_label=label,
    )


def sparkline(values: Sequence[float], *, label: str) -> Markup:
    """A short history, the newest at the right; `label` is the same in words."""
    top = max(values, default=0) or 1
    last = max(1, len(values) - 1)
    points = [
        f"{number(_WIDE * place / last)},{number(2 + (_TALL - 4) * (1 - value / top))}"
        for place, value in enumerate(values)
    ]
    around = f"0,{_TALL} {' '.join(points)} {_WIDE},{_TALL}"
    return tag(
        "svg",
        tag("title", label),
        tag("polygon", points=around, class_="plot-area plot-ok"),
        tag("polyline", points=" ".join(points), class_="plot-line plot-ok"),
        class_="sparkline",
        width=_WIDE,
        height=_TALL,
        viewBox=f"0 0 {_WIDE} {_TALL}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
