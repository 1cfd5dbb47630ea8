"""The picture of docs/explanation/schedules.md: what fires in the nights in which the clocks turn.

`python tests/dst_picture.py > docs/images/dst.svg` (`make docs`). Each dot is computed by the
code that computes when a schedule is due.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.features.lint.heat_map import FAINT, INK, box, element, line, svg, text, titled
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


def main() -> int:
    """Print the picture."""
    sys.stdout.write(picture())
    return 0


def picture(nights: Sequence[Night] = (GAP, REPEAT)) -> str:
    """The picture as SVG."""
    height = 64 + _PANEL * len(nights) + 26
    rate = f"{EXPRESSIONS[2]} counts elapsed time from its StartDate, {_RATE_START:%H:%M} UTC"
    shapes = [
        text(20, 32, f"When the clocks turn in {ZONE}", 18, INK, font_weight=600),
        *_key(),
        *(
            shape
            for index, night in enumerate(nights)
            for shape in _night(night, 64 + _PANEL * index)
        ),
        text(_LEFT, height - 16, rate, 11, FAINT),
    ]
    return svg(
        _WIDTH,
        height,
        title=f"Schedules in {ZONE} when daylight saving time begins and ends",
        about="For each night the wall clock, UTC below it, and the firings of "
        f"{', '.join(EXPRESSIONS)}. A time that the clock leaves out is skipped. A time that comes "
        "twice fires once, the first time. A rate counts elapsed hours.",
        shapes=shapes,
    )


def firings(expression: str, night: Night) -> list[datetime]:
    """What an expression fires in a night, in UTC."""
    start = _RATE_START if expression.startswith("rate") else None
    before = night.begin - timedelta(seconds=1)
    return list(parse(expression, ZONE, start=start).between(before, night.end))


def _fires(x: float, y: float, label: str = "") -> str:
    return element("circle", titled(label), cx=x, cy=y, r=5.5, fill=_FIRES)


def _does_not(x: float, y: float, label: str = "") -> str:
    edge = {"stroke": _LOST, "stroke_width": 1.6}
    return element("circle", titled(label), cx=x, cy=y, r=5.5, fill="#ffffff", **edge)


def _key() -> Iterator[str]:
    x = _WIDTH - _RIGHT
    yield text(x, 32, "does not fire", 12, FAINT, text_anchor="end")
    yield _does_not(x - 88, 28)
    yield text(x - 112, 32, "fires", 12, FAINT, text_anchor="end")
    yield _fires(x - 150, 28)


def _night(night: Night, top: float) -> Iterator[str]:
    yield text(20, top + 16, night.title, 14, INK, font_weight=600)
    wall = top + 44
    utc = wall + _STRIP + 6
    yield text(_LEFT - 34, wall + 18, f"Wall clock, {ZONE}", 12, INK, text_anchor="end")
    yield text(_LEFT - 34, utc + 16, "UTC", 12, FAINT, text_anchor="end")
    yield from _wall(night, wall)
    bottom = utc + 30 + _ROW * len(EXPRESSIONS)
    for hour in range(_HOURS + 1):
        instant = night.begin + timedelta(hours=hour)
        x = _x(instant, night)
        yield line(x, wall + _STRIP, x, wall + _STRIP + 5, FAINT)
        yield text(x, utc + 16, f"{instant:%H:%M}", 11, FAINT, text_anchor="middle")
        yield line(x, utc + 24, x, bottom)
    turn = _x(night.turn, night)
    for begin, end in ((wall - 6, wall + _STRIP + 5), (utc + 24, bottom)):  # not across UTC's 01:00
        yield line(turn, begin, turn, end, _LOST, stroke_width=1.6, stroke_dasharray="4 3")
    for index, expression in enumerate(EXPRESSIONS):
        yield from _row(night, expression, utc + 30 + _ROW * (index + 0.5))


def _wall(night: Night, top: float) -> Iterator[str]:
    """The clock's own time: a strip for each offset, and the hours as the clock shows them."""
    for begin, end in ((night.begin, night.turn), (night.turn, night.end)):
        local = begin.astimezone(ZoneInfo(ZONE))
        x, right = _x(begin, night), _x(end, night)
        yield box(x, top, right - x, _STRIP, _SUMMER if local.dst() else _WINTER)
        zone = f"{local:%Z} = UTC+{(local.utcoffset() or timedelta()) // timedelta(hours=1)}"
        yield text((x + right) / 2, top - 6, zone, 11, FAINT, text_anchor="middle")
        hours = round((end - begin) / timedelta(hours=1))
        for hour in range(hours + 1):
            # The last hour of the first strip as its clock would count it: 02:00 becomes 03:00.
            shown = local.replace(tzinfo=None) + timedelta(hours=hour)
            place = _x(begin + timedelta(hours=hour), night)
            more, shift = {"text_anchor": "middle"}, 0.0
            if begin + timedelta(hours=hour) == night.turn:
                more, shift = ({}, 5.0) if hour == 0 else ({"text_anchor": "end"}, -5.0)
            about = {**more, "font_weight": 600}
            yield text(place + shift, top + 18, f"{shown:%H:%M}", 13, INK, **about)


def _row(night: Night, expression: str, y: float) -> Iterator[str]:
    yield text(_LEFT - 34, y + 4, expression, 13, INK, text_anchor="end", font_weight=600)
    yield line(_LEFT, y, _WIDTH - _RIGHT, y)
    for instant in firings(expression, night):
        local = instant.astimezone(ZoneInfo(ZONE))
        x = _x(instant, night)
        yield _fires(x, y, f"{local:%H:%M %Z} = {instant:%H:%M} UTC")
        yield text(x + 8, y - 5, f"{local:%H:%M}", 11, INK)
    if expression in night.unfired:
        instant, why = night.unfired[expression]
        x = _x(instant, night)
        yield _does_not(x, y, why)
        yield text(x + 10, y - 5, why, 11.5, _LOST, font_weight=600)


def _x(instant: datetime, night: Night) -> float:
    share = (instant - night.begin) / (night.end - night.begin)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


if __name__ == "__main__":
    sys.exit(main())
