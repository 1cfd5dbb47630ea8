"""The picture of docs/schedules.md: what fires in the nights in which the clocks turn.

`python tests/dst_picture.py > docs/images/dst.svg` (`make docs`). Each dot is computed by the
code that computes when a schedule is due.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from kiqbridge.commands.heat_map import FAINT, INK, LINE, box, element, line, svg, text, titled
from kiqbridge.schedule.cron import parse

ZONE: Final = "Europe/Paris"
EXPRESSIONS: Final = ("cron(30 2 * * ? *)", "cron(0 3 * * ? *)", "rate(1 hour)")
_RATE_START: Final = datetime(2026, 1, 1, 0, 15, tzinfo=UTC)
_HOURS: Final = 6

_WIDTH, _LEFT, _RIGHT = 920, 226, 36
_PANEL: Final = 252
_STRIP: Final = 26
_ROW: Final = 38
_WINTER, _SUMMER, _FIRES = "#dbe7f3", "#fde8c8", "#0b559f"
_LOST: Final = "#b4500f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night that is drawn.

    Attributes:
        begin: UTC, where its strip begins; it is `_HOURS` long.
        turn: UTC, when the clocks turn.
        title: what happens.
        unfired: for expressions, an instant at which the clock shows, or would show, a time that is due and
            nothing fires, and why.
    """

    begin: datetime
    turn: datetime
    title: str
    unfired: dict[str, tuple[datetime, str]]

    @property
    def end(self) -> datetime:
        """UTC, where its strip ends."""
        return self.begin + timedelta(hours=_HOURS)


GAP: Final = Night(
    begin=datetime(2026, 3, 28, 23, tzinfo=UTC),
    turn=datetime(2026, 3, 29, 1, tzinfo=UTC),
    title="Sunday 2026-03-29: the clock goes from 02:00 to 03:00",
    unfired={
        EXPRESSIONS[0]: (
            datetime(2026, 3, 29, 1, tzinfo=UTC),
            "02:30 does not exist: skipped, next on 30 March",
        )
    },
)
REPEAT: Final = Night(
    begin=datetime(2026, 10, 24, 23, tzinfo=UTC),
    turn=datetime(2026, 10, 25, 1, tzinfo=UTC),
    title="Sunday 2026-10-25: the clock goes from 03:00 back to 02:00",
    unfired={
        EXPRESSIONS[0]: (
            datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
            "02:30 again: fires only the first time",
        )
    },
)


class Canvas:
    """A picture under construction; lengths are pixels, y grows downwards."""

    def __init__(self, *, width: int, height: int, title: str, description: str) -> None:
        self.height = height
        self._about = {"title": title, "about": description}
        self._width = width
        self._shapes: list[str] = []

    def text(
        self,
        place: tuple[float, float],
        content: str,
        *,
        size: float = 12,
        colour: str = INK,
        anchor: str = "start",
        weight: int | None = None,
    ) -> None:
        """A line of text; `place` is the end of its base line that `anchor` names."""
        more = {} if anchor == "start" else {"text_anchor": anchor}
        more |= {"font_weight": weight} if weight else {}
        self._shapes.append(text(*place, content, size, colour, **more))

    def box(self, place: tuple[float, float], size: tuple[float, float], *, fill: str) -> None:
        """A rectangle."""
        self._shapes.append(box(*place, *size, fill))

    def line(
        self, start: tuple[float, float], end: tuple[float, float], colour: str = LINE, **more: Any
    ) -> None:
        """A straight line."""
        self._shapes.append(line(*start, *end, colour, **more))

    def dot(
        self,
        place: tuple[float, float],
        radius: float,
        *,
        fill: str,
        edge: str | None = None,
        label: str = "",
    ) -> None:
        """A circle; a label is shown when the mouse rests on it."""
        more = {"stroke": edge, "stroke_width": edge and 1.6}
        about = {"cx": place[0], "cy": place[1], "r": radius, "fill": fill, **more}
        self._shapes.append(element("circle", titled(label), **about))

    def to_text(self) -> str:
        """As the text of a file."""
        return svg(self._width, self.height, shapes=self._shapes, **self._about)


def main() -> int:
    """Print the picture."""
    sys.stdout.write(picture())
    return 0


def picture(nights: Sequence[Night] = (GAP, REPEAT)) -> str:
    """The picture as SVG."""
    canvas = Canvas(
        width=_WIDTH,
        height=64 + _PANEL * len(nights) + 26,
        title=f"Schedules in {ZONE} when daylight saving time begins and ends",
        description="For each night the wall clock, UTC below it, and the firings of "
        f"{', '.join(EXPRESSIONS)}. A time that the clock leaves out is skipped. A time that comes "
        "twice fires once, the first time. A rate counts elapsed hours.",
    )
    canvas.text((20, 32), f"When the clocks turn in {ZONE}", size=18, weight=600)
    _draw_key(canvas)
    for index, night in enumerate(nights):
        _draw_night(canvas, night, 64 + _PANEL * index)
    rate = f"{EXPRESSIONS[2]} counts elapsed time from its StartDate, {_RATE_START:%H:%M} UTC"
    canvas.text((_LEFT, canvas.height - 16), rate, size=11, colour=FAINT)
    return canvas.to_text()


def firings(expression: str, night: Night) -> list[datetime]:
    """What an expression fires in a night, in UTC."""
    start = _RATE_START if expression.startswith("rate") else None
    before = night.begin - timedelta(seconds=1)
    return list(parse(expression, ZONE, start=start).between(before, night.end))


def _draw_key(canvas: Canvas) -> None:
    x = _WIDTH - _RIGHT
    canvas.text((x, 32), "does not fire", size=12, colour=FAINT, anchor="end")
    canvas.dot((x - 88, 28), 5.5, fill="#ffffff", edge=_LOST)
    canvas.text((x - 112, 32), "fires", size=12, colour=FAINT, anchor="end")
    canvas.dot((x - 150, 28), 5.5, fill=_FIRES)


def _draw_night(canvas: Canvas, night: Night, top: float) -> None:
    canvas.text((20, top + 16), night.title, size=14, weight=600)
    wall = top + 44
    utc = wall + _STRIP + 6
    canvas.text((_LEFT - 34, wall + 18), f"Wall clock, {ZONE}", size=12, anchor="end")
    canvas.text((_LEFT - 34, utc + 16), "UTC", size=12, anchor="end", colour=FAINT)
    _draw_wall(canvas, night, wall)
    bottom = utc + 30 + _ROW * len(EXPRESSIONS)
    for hour in range(_HOURS + 1):
        instant = night.begin + timedelta(hours=hour)
        x = _x(instant, night)
        canvas.line((x, wall + _STRIP), (x, wall + _STRIP + 5), colour=FAINT)
        canvas.text((x, utc + 16), f"{instant:%H:%M}", size=11, colour=FAINT, anchor="middle")
        canvas.line((x, utc + 24), (x, bottom))
    turn = _x(night.turn, night)
    for begin, end in ((wall - 6, wall + _STRIP + 5), (utc + 24, bottom)):  # not across UTC's 01:00
        canvas.line(
            (turn, begin),
            (turn, end),
            colour=_LOST,
            stroke_width=1.6,
            stroke_dasharray="4 3",
        )
    for index, expression in enumerate(EXPRESSIONS):
        _draw_row(canvas, night, expression, utc + 30 + _ROW * (index + 0.5))


def _draw_wall(canvas: Canvas, night: Night, top: float) -> None:
    """The clock's own time: a strip for each offset, and the hours as the clock shows them."""
    for begin, end in ((night.begin, night.turn), (night.turn, night.end)):
        local = begin.astimezone(ZoneInfo(ZONE))
        fill = _SUMMER if local.dst() else _WINTER
        x = _x(begin, night)
        canvas.box((x, top), (_x(end, night) - x, _STRIP), fill=fill)
        middle = (x + _x(end, night)) / 2
        zone = f"{local:%Z} = UTC+{(local.utcoffset() or timedelta()) // timedelta(hours=1)}"
        canvas.text((middle, top - 6), zone, size=11, colour=FAINT, anchor="middle")
        hours = round((end - begin) / timedelta(hours=1))
        for hour in range(hours + 1):
            # The last hour of the first strip as its clock would count it: 02:00 becomes 03:00.
            shown = local.replace(tzinfo=None) + timedelta(hours=hour)
            place = _x(begin + timedelta(hours=hour), night)
            anchor, shift = "middle", 0.0
            if begin + timedelta(hours=hour) == night.turn:
                anchor, shift = ("start", 5.0) if hour == 0 else ("end", -5.0)
            canvas.text(
                (place + shift, top + 18), f"{shown:%H:%M}", size=13, anchor=anchor, weight=600
            )


def _draw_row(canvas: Canvas, night: Night, expression: str, y: float) -> None:
    canvas.text((_LEFT - 34, y + 4), expression, size=13, anchor="end", weight=600)
    canvas.line((_LEFT, y), (_WIDTH - _RIGHT, y), colour=LINE)
    for instant in firings(expression, night):
        local = instant.astimezone(ZoneInfo(ZONE))
        place = (_x(instant, night), y)
        canvas.dot(place, 5.5, fill=_FIRES, label=f"{local:%H:%M %Z} = {instant:%H:%M} UTC")
        canvas.text((place[0] + 8, y - 5), f"{local:%H:%M}", size=11, colour=INK)
    if expression in night.unfired:
        instant, why = night.unfired[expression]
        canvas.dot((_x(instant, night), y), 5.5, fill="#ffffff", edge=_LOST, label=why)
        canvas.text((_x(instant, night) + 10, y - 5), why, size=11.5, colour=_LOST, weight=600)


def _x(instant: datetime, night: Night) -> float:
    share = (instant - night.begin) / (night.end - night.begin)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


if __name__ == "__main__":
    sys.exit(main())
