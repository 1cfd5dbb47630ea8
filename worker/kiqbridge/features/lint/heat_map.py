"""The heat map of a simulation: 24 hours across, 60 minutes down, darker where more fires.

One hue from light to dark, which is read without colour vision too; beside it the sums of the hours and of the
minutes, which show a minute that everybody has chosen.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from kiqbridge.features.lint.simulation import Load
from kiqbridge.wire.amounts import count_text

INK: Final = "#1f2933"
FAINT: Final = "#66727f"
LINE: Final = "#d5dbe1"
PAPER: Final = "#ffffff"
_FONT: Final = (
    "-apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"
)
_MARGIN: Final = 12
_EMPTY: Final = "#f4f6f8"
_SHADES: Final = ("#cfe1f2", "#93c3df", "#5ba3cf", "#2f7dbb", "#105ba4", "#08306b")
_BAR: Final = "#9fb3c8"
_CELL_WIDTH, _CELL_HEIGHT = 27, 9.5
_LEFT, _TOP = 64, 126
_GRID_WIDTH, _GRID_HEIGHT = 24 * _CELL_WIDTH, 60 * _CELL_HEIGHT
_BARS: Final = 92
_WIDTH: Final = _LEFT + _GRID_WIDTH + 14 + _BARS + 44
_HEIGHT: Final = int(_TOP + _GRID_HEIGHT + 14 + 64 + 60)


def svg(width: int, height: int, *, title: str, about: str, shapes: Iterable[str]) -> str:
    """A picture as the text of a file; `title` and `about` say what it is, for readers that see no picture."""
    size = f'width="{width}" height="{height}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img"'
        f' aria-label={quoteattr(title)} font-family="{_FONT}">'
    )
    ground = f'<rect {size} rx="{_MARGIN / 2:g}" fill="{PAPER}"/>'  # else a dark page shows through
    described = f"{titled(title)}<desc>{escape(about)}</desc>"
    return "\n".join([head, described, ground, *shapes, "</svg>"]) + "\n"


def element(tag: str, content: str = "", **attributes: float | str | None) -> str:
    """A shape, in pixels, y downwards; `_` in an attribute is a dash, and one that is None is left out."""
    given = "".join(
        f' {name.replace("_", "-")}="{value if isinstance(value, str) else _number(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{given}>{content}</{tag}>" if content else f"<{tag}{given}/>"


def titled(text: str) -> str:
    """What is shown when the mouse rests on a shape."""
    return f"<title>{escape(text)}</title>" if text else ""


def text(x: float, y: float, content: str, size: float = 11, fill: str = FAINT, **more: Any) -> str:
    """A line of text; `text_anchor` names the end of its base line that is there, as a rule the start."""
    return element("text", escape(content), x=x, y=y, font_size=size, fill=fill, **more)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, **more: Any) -> str:
    """A straight line."""
    stroke_width = more.pop("stroke_width", 1)
    return element(
        "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=stroke_width, **more
    )


def box(  # noqa: PLR0917 - place and size
    x: float, y: float, width: float, height: float, fill: str, label: str = "", **more: Any
) -> str:
    """A rectangle."""
    return element("rect", titled(label), x=x, y=y, width=width, height=height, fill=fill, **more)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def heat_map(load: Load, *, schedules: int, period: str) -> str:
    """The picture as SVG.

    Args:
        load: what is drawn.
        schedules: how many they are.
        period: as it is written below the title, such as `2026-01-01 to 2027-01-01`.
    """
    title = "Firings by minute of the day"
    head = f"{schedules:,} schedules, {period}, {count_text(load.total, 'firing')}"
    limits = limits_of(load.by_minute)
    shapes = [
        text(20, 34, title, 18, INK, font_weight=600),
        text(20, 56, f"{head}, clock of {load.timezone}", 12.5),
        text(20, 74, _busiest(load), 12.5),
        *_cells(load.by_minute, limits),
        *_axes(),
        *_hours(load.by_hour()),
        *_minutes(load.by_minute),
        *_legend(load, limits),
    ]
    about = f"{head}. {_busiest(load)}"
    return svg(_WIDTH, _HEIGHT, title=title, about=about, shapes=shapes)


def limits_of(counts: Sequence[int]) -> list[int]:
    """The upper limits of the shades, ascending: each number if they are few, else steps of the same factor.

    So that one minute with thousands leaves the others distinguishable.
    """
    found = sorted({count for count in counts if count})
    steps = len(_SHADES)
    if len(found) <= steps:
        return found
    low, high = found[0], found[-1]
    limits: list[int] = []
    for step in range(1, steps + 1):
        wanted = round(low * (high / low) ** (step / steps))
        limits.append(max(wanted, limits[-1] + 1 if limits else low))
    limits[-1] = high
    return limits


def shade_of(count: int, limits: Sequence[int]) -> str:
    """The colour of a number of firings."""
    if not count:
        return _EMPTY
    place = next(index for index, limit in enumerate(limits) if count <= limit)
    # With few limits the dark shades are used, so that a single firing is seen.
    return _SHADES[len(_SHADES) - len(limits) + place]


def _busiest(load: Load) -> str:
    if not load.total:
        return "Nothing fires."
    minute = max(range(len(load.by_minute)), key=load.by_minute.__getitem__)
    return (
        f"Busiest minute of the day: {_clock(minute)} with {count_text(load.by_minute[minute], 'firing')}; "
        f"at most {load.busiest:,} at once"
    )


def _cells(counts: Sequence[int], limits: Sequence[int]) -> Iterator[str]:
    yield box(_LEFT, _TOP, _GRID_WIDTH, _GRID_HEIGHT, _EMPTY)
    for minute, count in enumerate(counts):
        if count:
            x, y = _LEFT + minute // 60 * _CELL_WIDTH, _TOP + minute % 60 * _CELL_HEIGHT
            label = f"{_clock(minute)}: {count_text(count, 'firing')}"
            size, shade = (_CELL_WIDTH - 1, _CELL_HEIGHT - 1), shade_of(count, limits)
            yield box(x + 0.5, y + 0.5, *size, shade, label)


def _axes() -> Iterator[str]:
    middle = _LEFT + _GRID_WIDTH / 2
    yield text(middle, _TOP - 26, "Hour", 12, INK, text_anchor="middle", font_weight=600)
    for hour in range(24):
        x = _LEFT + hour * _CELL_WIDTH
        middle = x + _CELL_WIDTH / 2
        yield text(middle, _TOP - 8, f"{hour:02}", 11, INK, text_anchor="middle")
        if hour and hour % 6 == 0:
            yield line(x, _TOP, x, _TOP + _GRID_HEIGHT)
    yield text(_LEFT - 8, _TOP - 8, "Minute", 12, INK, text_anchor="end", font_weight=600)
    for minute in range(0, 60, 5):
        y = _TOP + minute * _CELL_HEIGHT
        colour, below = FAINT if minute % 15 else INK, _CELL_HEIGHT / 2 + 4
        yield text(_LEFT - 8, y + below, f":{minute:02}", 11, colour, text_anchor="end")
        if minute and minute % 15 == 0:
            yield line(_LEFT, y, _LEFT + _GRID_WIDTH, y)


def _hours(hours: Sequence[int]) -> Iterator[str]:
    """Bars below the grid: the sums of the hours."""
    top, width = _TOP + _GRID_HEIGHT + 14, _CELL_WIDTH - 6
    yield text(_LEFT - 8, top + 12, "by hour", text_anchor="end")
    yield line(_LEFT, top, _LEFT + _GRID_WIDTH, top, _BAR)
    for hour, count in enumerate(hours):
        if count:
            x, length = _LEFT + hour * _CELL_WIDTH + 3, max(1.0, 40 * count / max(hours))
            label = f"{hour:02}:00-{hour:02}:59: {count_text(count, 'firing')}"
            yield box(x, top, width, length, _BAR, label)
            yield text(x + width / 2, top + length + 10, _short(count), 9, text_anchor="middle")


def _minutes(counts: Sequence[int]) -> Iterator[str]:
    """Bars right of the grid: the sums of the minutes over all hours."""
    left = _LEFT + _GRID_WIDTH + 14
    sums = [sum(counts[minute::60]) for minute in range(60)]
    yield text(left, _TOP - 8, "by minute")
    yield line(left, _TOP, left, _TOP + _GRID_HEIGHT, _BAR)
    labelled = sorted(range(60), key=sums.__getitem__, reverse=True)[:6]
    for minute, count in enumerate(sums):
        if count:
            y, length = _TOP + minute * _CELL_HEIGHT, max(1.0, _BARS * count / max(sums))
            label = f":{minute:02} of every hour: {count_text(count, 'firing')}"
            yield box(left, y + 1, length, _CELL_HEIGHT - 2, _BAR, label)
            if minute in labelled:
                yield text(left + length + 4, y + 8, _short(count), 9)


def _legend(load: Load, limits: Sequence[int]) -> Iterator[str]:
    y = _HEIGHT - 34
    yield text(_LEFT, y + 12, "Firings in the minute", 12, INK, font_weight=600)
    x, low = float(_LEFT + 150), 0
    is_each = len(limits) == len({count for count in load.by_minute if count})
    for limit in [0, *limits]:
        words = f"{limit:,}" if is_each or limit <= low + 1 else f"{low + 1:,}-{limit:,}"
        yield box(x, y, 18, 14, shade_of(limit, limits), stroke=LINE)
        yield text(x + 24, y + 11.5, words, 11.5, INK)
        x += 24 + 6.5 * len(words) + 17
        low = limit


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _short(count: int) -> str:
    """Three digits: `950`, `1.2k`, `43k`, `1.1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{math.floor(value)}{unit}"  # noqa: PLR2004
    return str(count)
