"""Small plots within a row of a table: a share as a bar, a short history as a line."""

from collections.abc import Sequence
from typing import Final, Literal

from markupsafe import Markup

from kiqbridge.web.plots.markup import number, percent, tag

_WIDE, _TALL = 100, 24
_BAR: Final = 8


def meter(
    share: float,
    *,
    label: str,
    shade: Literal["ok", "warn", "bad"] = "ok",
    marked: float | None = None,
) -> Markup:
    """A share of 1 as a horizontal bar as wide as its place; more than 1 is drawn as 1.

    Args:
        share: what is drawn.
        label: the same in words.
        shade: its colour's class.
        marked: a second share, drawn as a line, such as a limit.
    """
    drawn = min(1.0, max(0.0, share))
    limit = (
        [tag("rect", x=percent(marked), width=2, height=_BAR, class_="meter-limit")]
        if marked is not None
        else []
    )
    return tag(
        "svg",
        tag("title", label),
        tag("rect", width="100%", height=_BAR, rx=4, class_="meter-ground"),
        tag("rect", width=percent(drawn), height=_BAR, rx=4, class_=f"meter-fill meter-{shade}"),
        *limit,
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
