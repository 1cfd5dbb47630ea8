"""Elements of SVG and HTML, escaped; where the lines of an axis are: at round values, and at round times of UTC.

Horizontal places are percentages and vertical ones pixels: a plot is as wide as its place, and its text keeps the
size of the page's text, on a phone as well.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from markupsafe import Markup, escape

_STEPS_S: Final = tuple(
    60 * minutes
    for minutes in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10080)
)
_DAY_S: Final = 86_400


def tag(name: str, *content: str | Markup, **attributes: object) -> Markup:
    """An element; `class_` is the attribute `class`, `aria_label` is `aria-label`; what is None is left out."""
    # A page has a thousand of these: each value is escaped once, and all is joined once.
    given = "".join(
        [
            f' {_attribute(key)}="{_value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    inner = join(content)
    closed = f"<{name}{given}>{inner}</{name}>" if inner else f"<{name}{given}/>"
    return Markup(closed)  # noqa: S704 - names are ours, values and content are escaped


def join(parts: Iterable[str | Markup]) -> Markup:
    """One after the other, escaped where that was not done."""
    return Markup("".join([escape(part) for part in parts]))  # noqa: S704 - escaped right here


@lru_cache(maxsize=200)
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def percent(share: float) -> str:
    """A share of 1 as SVG writes a percentage: `37.5%`."""
    return f"{number(100 * share)}%"


def number(value: float) -> str:
    """With two decimals at most."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str | Markup]]) -> Markup:
    """The numbers of a plot for those who do not see it, or want to copy them, folded."""
    head = tag("tr", *(tag("th", heading, scope="col") for heading in headings))
    body = [
        tag(
            "tr",
            tag("th", first, scope="row"),
            *(tag("td", cell, class_="number") for cell in cells),
        )
        for first, *cells in rows
    ]
    found = tag(
        "table",
        tag("caption", caption, class_="hidden"),
        tag("thead", head),
        tag("tbody", *body),
    )
    scrolled = tag("div", found, class_="table-wrap", tabindex=0, role="region", aria_label=caption)
    return tag("details", tag("summary", "As a table"), scrolled, class_="plot-table")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else escape(value)


def value_ticks(most: float) -> list[float]:
    """Round whole numbers from 0 to at least `most`, about four steps of 1, 2 or 5 times a power of ten."""
    if not math.isfinite(most) or most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(
        1.0, next(power * each for each in (1, 2, 5, 10) if power * each >= rough * (1 - 1e-9))
    )
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(first: float, last: float) -> list[int]:
    """Round times of UTC from `first` to `last` (epoch seconds), at most seven."""
    rough = max(1.0, (last - first) / 6)
    step = next((each for each in _STEPS_S if each >= rough), _STEPS_S[-1])
    while (last - first) / step > 6:  # noqa: PLR2004 - steps, so seven ticks
        step *= 2
    return list(range(math.ceil(first / step) * step, math.floor(last) + 1, step))


def grid(ticks: Sequence[float], top: float, inner: float) -> Iterator[Markup]:
    """The horizontal lines of a ground of `inner` pixels below `top`."""
    for value in ticks:
        y = top + inner * (1 - value / ticks[-1])
        line = "plot-grid" if value else "plot-zero"
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_=line)


def grid_labels(ticks: Sequence[float], top: float, inner: float) -> Iterator[Markup]:
    """The numbers of these lines, to be drawn above what is counted."""
    for value in ticks[1:]:
        y = top + inner * (1 - value / ticks[-1]) - 4
        yield tag("text", value_label(value), x="0", y=y, class_="plot-label")


def figure(
    drawn: Iterable[Markup],
    *,
    name: str,
    title: str,
    description: str,
    height: int,
    caption: Sequence[Markup],
    below: Markup,
) -> Markup:
    """A plot with its caption above, and what is below it.

    Args:
        drawn: the parts of the plot.
        name: of the plot on its page, for ids.
        title: what it shows.
        description: its numbers in words.
        height: pixels.
        caption: parts of the caption.
        below: its marks and its table.
    """
    plot = tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *drawn,
        class_="plot",
        width="100%",
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    return tag("figure", tag("figcaption", *caption), plot, below, class_="plot-figure")


def time_label(at: float) -> str:
    """`14:05`, and at midnight the day: `22 Nov`; UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment.day} {moment:%b}" if at % _DAY_S == 0 else f"{moment:%H:%M}"


def full_time(at: float) -> str:
    """`2026-11-22 14:05`, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def value_label(value: float) -> str:
    """`950`, `1.2k`, `43k`, `1.1M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.2f}".rstrip("0").rstrip(".")


def milliseconds(value: float) -> str:
    """`45 ms`, `1.7 s`, `5 min 35 s`."""
    if value < 1000:  # noqa: PLR2004 - a second
        return f"{value:.0f} ms"
    seconds = value / 1000
    if seconds < 100:  # noqa: PLR2004 - three digits
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
