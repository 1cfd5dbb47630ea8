"""The heat map of a simulation: 24 hours across, 60 minutes down, darker where more fires.

One hue from light to dark, which is read without colour vision too; beside it the sums of the hours and of the
minutes, which show a minute that everybody has chosen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from kiqbridge.schedule.simulation import Load

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


@dataclass(slots=True, kw_only=True)
class Canvas:
    """A picture under construction; lengths are pixels, y grows downwards.

    Attributes:
        width, height: of the whole.
        title: what it is, for readers that see no picture.
        description: the same in a few sentences.
    """

    width: int
    height: int
    title: str
    description: str = ""
    _shapes: list[str] = field(default_factory=list)

    def text(
        self,
        place: tuple[float, float],
        content: str,
        *,
        size: float = 12,
        colour: str = INK,
        anchor: str = "start",
        weight: int = 400,
    ) -> None:
        """A line of text; `place` is the end of its base line that `anchor` names."""
        bold = f' font-weight="{weight}"' if weight != 400 else ""  # noqa: PLR2004 - CSS' normal
        aligned = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._shapes.append(
            f'<text x="{_number(place[0])}" y="{_number(place[1])}" font-size="{_number(size)}"'
            f' fill="{colour}"{aligned}{bold}>{escape(content)}</text>'
        )

    def box(
        self,
        place: tuple[float, float],
        size: tuple[float, float],
        *,
        fill: str,
        edge: str = "",
        label: str = "",
        radius: float = 0,
    ) -> None:
        """A rectangle; a label is shown when the mouse rests on it."""
        stroke = f' stroke="{edge}"' if edge else ""
        round_ = f' rx="{_number(radius)}"' if radius else ""
        shape = (
            f'<rect x="{_number(place[0])}" y="{_number(place[1])}" width="{_number(size[0])}"'
            f' height="{_number(size[1])}" fill="{fill}"{stroke}{round_}'
        )
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></rect>" if label else f"{shape}/>"
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        colour: str = LINE,
        width: float = 1,
        dashed: bool = False,
    ) -> None:
        """A straight line."""
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._shapes.append(
            f'<line x1="{_number(start[0])}" y1="{_number(start[1])}" x2="{_number(end[0])}"'
            f' y2="{_number(end[1])}" stroke="{colour}" stroke-width="{_number(width)}"{dashes}/>'
        )

    def trace(
        self, points: Sequence[tuple[float, float]], *, colour: str, width: float = 1.6
    ) -> None:
        """A line through points."""
        self._shapes.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{colour}"'
            f' stroke-width="{_number(width)}" stroke-linejoin="round"/>'
        )

    def area(self, points: Sequence[tuple[float, float]], *, fill: str, label: str = "") -> None:
        """A filled shape with corners; a label is shown when the mouse rests on it."""
        shape = f'<polygon points="{_points(points)}" fill="{fill}"'
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></polygon>" if label else f"{shape}/>"
        )

    def dot(
        self,
        place: tuple[float, float],
        radius: float,
        *,
        fill: str,
        edge: str = "",
        label: str = "",
    ) -> None:
        """A circle; a label is shown when the mouse rests on it."""
        stroke = f' stroke="{edge}" stroke-width="1.6"' if edge else ""
        shape = (
            f'<circle cx="{_number(place[0])}" cy="{_number(place[1])}" r="{_number(radius)}"'
            f' fill="{fill}"{stroke}'
        )
        self._shapes.append(
            f"{shape}><title>{escape(label)}</title></circle>" if label else f"{shape}/>"
        )

    def to_text(self) -> str:
        """The picture as the text of a file."""
        size = f'width="{self.width}" height="{self.height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} {self.height}"'
            f' role="img" aria-label={quoteattr(self.title)} font-family="{_FONT}">'
        )
        ground = (
            f'<rect {size} rx="{_MARGIN / 2:g}" fill="{PAPER}"/>'  # else a dark page shows through
        )
        described = f"<desc>{escape(self.description)}</desc>" if self.description else ""
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title + described, ground, *self._shapes, "</svg>"]) + "\n"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def heat_map(load: Load, *, schedules: int, period: str) -> str:
    """The picture as SVG.

    Args:
        load: what is drawn.
        schedules: how many they are.
        period: as it is written below the title, such as `2026-01-01 to 2027-01-01`.
    """
    head = f"{schedules:,} schedules, {period}, {_firings(load.total)}"
    canvas = Canvas(
        width=_WIDTH,
        height=_HEIGHT,
        title="Firings by minute of the day",
        description=f"{head}. {_busiest(load)}",
    )
    canvas.text((20, 34), "Firings by minute of the day", size=18, weight=600)
    canvas.text((20, 56), f"{head}, clock of {load.timezone}", size=12.5, colour=FAINT)
    canvas.text((20, 74), _busiest(load), size=12.5, colour=FAINT)
    limits = limits_of(load.by_minute)
    _draw_cells(canvas, load.by_minute, limits)
    _draw_axes(canvas)
    _draw_hours(canvas, load.by_hour())
    _draw_minutes(canvas, load.by_minute)
    _draw_legend(canvas, load, limits)
    return canvas.to_text()


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
        f"Busiest minute of the day: {_clock(minute)} with {_firings(load.by_minute[minute])}; "
        f"at most {load.busiest:,} at once"
    )


def _draw_cells(canvas: Canvas, counts: Sequence[int], limits: Sequence[int]) -> None:
    canvas.box((_LEFT, _TOP), (_GRID_WIDTH, _GRID_HEIGHT), fill=_EMPTY)
    for minute, count in enumerate(counts):
        if count:
            place = (_LEFT + minute // 60 * _CELL_WIDTH, _TOP + minute % 60 * _CELL_HEIGHT)
            label = f"{_clock(minute)}: {_firings(count)}"
            canvas.box(
                (place[0] + 0.5, place[1] + 0.5),
                (_CELL_WIDTH - 1, _CELL_HEIGHT - 1),
                fill=shade_of(count, limits),
                label=label,
            )


def _draw_axes(canvas: Canvas) -> None:
    middle = (_LEFT + _GRID_WIDTH / 2, _TOP - 26)
    canvas.text(middle, "Hour", size=12, anchor="middle", weight=600)
    for hour in range(24):
        x = _LEFT + (hour + 0.5) * _CELL_WIDTH
        canvas.text((x, _TOP - 8), f"{hour:02}", size=11, colour=INK, anchor="middle")
        if hour and hour % 6 == 0:
            x = _LEFT + hour * _CELL_WIDTH
            canvas.line((x, _TOP), (x, _TOP + _GRID_HEIGHT), colour=LINE)
    canvas.text((_LEFT - 8, _TOP - 8), "Minute", size=12, anchor="end", weight=600)
    for minute in range(0, 60, 5):
        y = _TOP + (minute + 0.5) * _CELL_HEIGHT + 4
        colour = FAINT if minute % 15 else INK
        canvas.text((_LEFT - 8, y), f":{minute:02}", size=11, colour=colour, anchor="end")
        if minute and minute % 15 == 0:
            y = _TOP + minute * _CELL_HEIGHT
            canvas.line((_LEFT, y), (_LEFT + _GRID_WIDTH, y), colour=LINE)


def _draw_hours(canvas: Canvas, hours: Sequence[int]) -> None:
    """Bars below the grid: the sums of the hours."""
    top, height = _TOP + _GRID_HEIGHT + 14, 40
    canvas.text((_LEFT - 8, top + 12), "by hour", size=11, colour=FAINT, anchor="end")
    canvas.line((_LEFT, top), (_LEFT + _GRID_WIDTH, top), colour=_BAR)
    most = max(hours)
    for hour, count in enumerate(hours):
        if count:
            length = max(1.0, height * count / most)
            place = (_LEFT + hour * _CELL_WIDTH + 3, top)
            label = f"{hour:02}:00-{hour:02}:59: {_firings(count)}"
            canvas.box(place, (_CELL_WIDTH - 6, length), fill=_BAR, label=label)
            middle = place[0] + (_CELL_WIDTH - 6) / 2
            canvas.text(
                (middle, top + length + 10), _short(count), size=9, colour=FAINT, anchor="middle"
            )


def _draw_minutes(canvas: Canvas, counts: Sequence[int]) -> None:
    """Bars right of the grid: the sums of the minutes over all hours."""
    left = _LEFT + _GRID_WIDTH + 14
    sums = [sum(counts[minute::60]) for minute in range(60)]
    canvas.text((left, _TOP - 8), "by minute", size=11, colour=FAINT)
    canvas.line((left, _TOP), (left, _TOP + _GRID_HEIGHT), colour=_BAR)
    most = max(sums)
    labelled = sorted(range(60), key=sums.__getitem__, reverse=True)[:6]
    for minute, count in enumerate(sums):
        if count:
            length = max(1.0, _BARS * count / most)
            y = _TOP + minute * _CELL_HEIGHT
            label = f":{minute:02} of every hour: {_firings(count)}"
            canvas.box((left, y + 1), (length, _CELL_HEIGHT - 2), fill=_BAR, label=label)
            if minute in labelled:
                canvas.text((left + length + 4, y + 8), _short(count), size=9, colour=FAINT)


def _draw_legend(canvas: Canvas, load: Load, limits: Sequence[int]) -> None:
    y = _HEIGHT - 34
    canvas.text((_LEFT, y + 12), "Firings in the minute", size=12, weight=600)
    x: float = _LEFT + 150
    low = 0
    is_each = len(limits) == len({count for count in load.by_minute if count})
    for limit in [0, *limits]:
        words = f"{limit:,}" if is_each or limit <= low + 1 else f"{low + 1:,}-{limit:,}"
        canvas.box((x, y), (18, 14), fill=shade_of(limit, limits), edge=LINE)
        canvas.text((x + 24, y + 11.5), words, size=11.5)
        x += 24 + 6.5 * len(words) + 17
        low = limit


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _firings(count: int) -> str:
    return f"{count:,} firing" + ("" if count == 1 else "s")


def _short(count: int) -> str:
    """Three digits: `950`, `1.2k`, `43k`, `1.1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{math.floor(value)}{unit}"  # noqa: PLR2004
    return str(count)
