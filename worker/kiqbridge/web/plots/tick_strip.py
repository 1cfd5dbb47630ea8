"""The last firings of a schedule as a row of signs: each state has a shape of its own besides its colour."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

from kiqbridge.web.plots.markup import tag

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
    x = place * _CELL
    death = (
        [tag("rect", x=x + 4, y=14, width=8, height=2, class_="tick-dead")] if tick.is_bad else []
    )
    return tag(
        "g",
        tag("title", tick.title),
        tag("rect", x=x, y=0, width=_CELL, height=_CELL, class_="plot-hit"),
        *_sign(tick.state, x),
        *death,
        class_=f"tick tick-{tick.state.replace(' ', '-')}",
    )


def _sign(state: TickState, x: int) -> list[Markup]:
    """Drawn within 12 by 12 pixels."""
    match state:
        case "on time":
            return [tag("circle", cx=x + 8, cy=7, r=4.5, class_="tick-fill")]
        case "late":
            return [tag("path", d=f"M{x + 8} 2 L{x + 13} 11.5 H{x + 3} Z", class_="tick-fill")]
        case "duplicate":
            ring = tag("circle", cx=x + 8, cy=7, r=5.0, class_="tick-line")
            return [ring, tag("circle", cx=x + 8, cy=7, r=2.2, class_="tick-fill")]
        case "missed":
            return [
                tag(
                    "path", d=f"M{x + 4} 3 L{x + 12} 11 M{x + 12} 3 L{x + 4} 11", class_="tick-line"
                )
            ]
        case "caught up":
            return [
                tag(
                    "path",
                    d=f"M{x + 8} 1.5 L{x + 13} 7 L{x + 8} 12.5 L{x + 3} 7 Z",
                    class_="tick-fill",
                )
            ]
        case "left out":
            return [tag("path", d=f"M{x + 4} 7 H{x + 12}", class_="tick-line")]
