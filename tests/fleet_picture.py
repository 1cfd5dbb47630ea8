"""The picture of docs/scaling.md: a million jobs a second over 16 shards while parts of them fail.

`python -m kiqbridge.sizing.fleet_picture > docs/images/fleet.svg` (`make scale`).
"""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Final

from kiqbridge.schedule.svg import FAINT, INK, Canvas
from kiqbridge.sizing.fleet_simulation import HOT, SHARD, ZONE, Event, Result, Second, simulate

_WIDTH, _LEFT, _RIGHT = 980, 96, 148
_PLOT: Final = _WIDTH - _LEFT - _RIGHT
_TOP: Final = 136
_PANEL, _GAP = 120, 46
_ROW: Final = 9
_PUSHED, _DONE = "#9fb3c8", "#0b559f"
_WAITING, _HELD = "#5ba3cf", "#f0b35e"
_MEDIAN, _TAIL = "#0b559f", "#b4500f"
_BAND: Final = "#f6ece4"
_SHADES: Final = ("#f4f6f8", "#cfe1f2", "#93c3df", "#5ba3cf", "#2f7dbb", "#105ba4", "#08306b")
_LIMITS_S: Final = (0.1, 1, 3, 10, 30, 60)
"""Upper limits of the shades, in seconds of a shard's normal pushes that wait; above the last the darkest."""
_NAMES: Final = {
    SHARD: "shard {} is away",
    ZONE: "zone {} is lost",
    HOT: "shard {} gets {:g} x its jobs",
}


def main() -> int:
    """Print the picture."""
    sys.stdout.write(picture(simulate()))
    return 0


def picture(result: Result) -> str:
    """The picture as SVG."""
    fleet = result.fleet
    height = _TOP + 3 * (_PANEL + _GAP) + fleet.shards * _ROW + 56
    canvas = Canvas(
        width=_WIDTH,
        height=height,
        title=f"{fleet.jobs_per_s:,.0f} jobs a second over {fleet.shards} shards, with failures",
        description=summary(result),
    )
    canvas.text((20, 32), canvas.title, size=18, weight=600)
    for number, line in enumerate(_lines(result)):
        canvas.text((20, 54 + 17 * number), line, size=12, colour=FAINT)
    bottom = _TOP + 3 * (_PANEL + _GAP) + fleet.shards * _ROW
    for event in result.events:
        _draw_event(canvas, result, event, bottom)
    top = float(_TOP)
    seconds = result.seconds
    _draw_rates(canvas, seconds, top)
    top += _PANEL + _GAP
    _draw_waiting(canvas, seconds, top)
    top += _PANEL + _GAP
    _draw_latency(canvas, seconds, top)
    top += _PANEL + _GAP
    _draw_shards(canvas, result, top)
    _draw_time(canvas, seconds, bottom)
    return canvas.to_text()


def summary(result: Result) -> str:
    """The outcome in a sentence for each part."""
    drained = "; ".join(
        f"{_name(event)}: {'not within the run' if took is None else f'{took:.0f} s after its end'}"
        for event, took in zip(result.events, result.drained_s, strict=True)
    )
    return (
        f"{result.arrived:,} jobs arrived, {result.done:,} are done, {result.left:,} run or wait at the end, "
        f"{result.lost:,} are lost. {result.repeated:,} times a job was begun again. Caught up: {drained}."
    )


def _lines(result: Result) -> list[str]:
    drained = ", ".join(
        f"{_name(event)}: {'never' if took is None else f'{took:.0f} s'}"
        for event, took in zip(result.events, result.drained_s, strict=True)
    )
    lag = f"{result.fleet.lag_s * 1000:.0f} ms of replication"
    return [
        f"{result.arrived / 1e6:,.1f} million jobs arrived, {result.lost:,} lost ({result.at_risk:,} at risk, by {lag}), {result.repeated:,} begun again",
        f"From the end of a failure until all is caught up: {drained}",
    ]


def _name(event: Event) -> str:
    return _NAMES[event.kind].format(event.number, event.factor)


def _draw_event(canvas: Canvas, result: Result, event: Event, bottom: float) -> None:
    total = len(result.seconds)
    left, right = _x(event.at, total), _x(event.end, total)
    canvas.box((left, _TOP), (right - left, bottom - _TOP), fill=_BAND, label=_name(event))
    canvas.text((left, _TOP - 36), f"{_name(event)}, {event.seconds:.0f} s", size=11.5, weight=600)
    canvas.line((left, _TOP - 30), (left, _TOP - 21), colour=FAINT)


def _draw_rates(canvas: Canvas, seconds: Sequence[Second], top: float) -> None:
    most = _round_up(max(max(each.pushed, each.done) for each in seconds))
    _draw_frame(canvas, top, "Jobs a second", most)
    _draw_trace(canvas, top, seconds, lambda each: each.pushed / most, _PUSHED)
    _draw_trace(canvas, top, seconds, lambda each: each.done / most, _DONE)
    _draw_key(canvas, top, (("taken by Redis", _PUSHED), ("done", _DONE)))


def _draw_waiting(canvas: Canvas, seconds: Sequence[Second], top: float) -> None:
    most = _round_up(max(sum(each.waiting) + each.held for each in seconds))
    _draw_frame(canvas, top, "Jobs that wait", most)
    floor = [(_x(number, len(seconds)), top + _PANEL) for number in range(len(seconds))]
    for colour, share in (
        (_HELD, lambda each: (sum(each.waiting) + each.held) / most),
        (_WAITING, lambda each: sum(each.waiting) / most),
    ):
        points = _points(top, seconds, share)
        canvas.area([*points, *reversed((floor[0], floor[-1]))], fill=colour)
    _draw_key(canvas, top, (("in queues", _WAITING), ("held by producers", _HELD)))


def _draw_latency(canvas: Canvas, seconds: Sequence[Second], top: float) -> None:
    """On a logarithmic scale, from a millisecond to 100 s."""
    canvas.text((_LEFT, top - 8), "From push to begin", size=12.5, weight=600)
    for power, words in enumerate(("1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s")):
        y = top + _PANEL * (1 - power / 5)
        canvas.line((_LEFT, y), (_LEFT + _PLOT, y))
        canvas.text((_LEFT - 8, y + 4), words, size=11, colour=FAINT, anchor="end")

    def share(wait: float) -> float:
        return min(max(math.log10(max(wait, 0.001) * 1000) / 5, 0), 1)

    _draw_trace(canvas, top, seconds, lambda each: share(each.p99), _TAIL)
    _draw_trace(canvas, top, seconds, lambda each: share(each.p50), _MEDIAN)
    _draw_key(canvas, top, (("p99", _TAIL), ("p50", _MEDIAN)))


def _draw_shards(canvas: Canvas, result: Result, top: float) -> None:
    """A strip for each shard, the darker the more waits; seconds of the same shade are one box."""
    canvas.text((_LEFT, top - 8), "Jobs that wait, by shard", size=12.5, weight=600)
    fleet, total = result.fleet, len(result.seconds)
    normal = fleet.jobs_per_s / fleet.shards
    canvas.box((_LEFT, top), (_PLOT, fleet.shards * _ROW), fill=_SHADES[0])
    for shard in range(fleet.shards):
        y = top + shard * _ROW
        if shard % 5 == 0:
            canvas.text((_LEFT - 8, y + _ROW), f"shard {shard}", size=10, colour=FAINT, anchor="end")  # fmt: skip
        begin, last = 0, ""
        for number in range(total + 1):
            waits = result.seconds[number].waiting[shard] / normal if number < total else 0.0
            shade = _shade(waits) if number < total else ""
            if shade == last:
                continue
            if last not in {"", _SHADES[0]}:
                left, right = _x(begin, total), _x(number, total)
                canvas.box((left, y + 0.5), (right - left, _ROW - 1), fill=last)
            begin, last = number, shade
    x = _LEFT + _PLOT + 14.0
    canvas.text((x, top + 8), "seconds of pushes", size=10.5, colour=FAINT)
    for number, shade in enumerate(_SHADES[1:]):
        y = top + 16 + number * 15
        words = f"{_LIMITS_S[number]:g} to {_LIMITS_S[number + 1]:g}" if number + 1 < len(_LIMITS_S) else f"above {_LIMITS_S[-1]:g}"  # fmt: skip
        canvas.box((x, y), (16, 11), fill=shade)
        canvas.text((x + 22, y + 9.5), words, size=10.5, colour=FAINT)


def _shade(waits: float) -> str:
    return _SHADES[sum(waits > limit for limit in _LIMITS_S)]


def _draw_time(canvas: Canvas, seconds: Sequence[Second], bottom: float) -> None:
    total = len(seconds)
    for minute in range(total // 60 + 1):
        x = _x(minute * 60, total)
        canvas.line((x, bottom), (x, bottom + 5), colour=FAINT)
        canvas.text((x, bottom + 19), f"{minute}", size=11, colour=FAINT, anchor="middle")
    canvas.text((_LEFT + _PLOT / 2, bottom + 38), "minutes", size=11.5, anchor="middle")


def _draw_frame(canvas: Canvas, top: float, title: str, most: float) -> None:
    canvas.text((_LEFT, top - 8), title, size=12.5, weight=600)
    for quarter in range(5):
        y = top + _PANEL * (1 - quarter / 4)
        canvas.line((_LEFT, y), (_LEFT + _PLOT, y))
        if quarter % 2 == 0:
            canvas.text((_LEFT - 8, y + 4), _short(most * quarter / 4), size=11, colour=FAINT, anchor="end")  # fmt: skip


def _draw_key(canvas: Canvas, top: float, entries: Sequence[tuple[str, str]]) -> None:
    x = _LEFT + _PLOT + 14.0
    for number, (words, colour) in enumerate(entries):
        y = top + 14 + 20 * number
        canvas.box((x, y - 9), (12, 10), fill=colour)
        canvas.text((x + 18, y), words, size=11.5, colour=INK)


def _draw_trace(
    canvas: Canvas,
    top: float,
    seconds: Sequence[Second],
    share: Callable[[Second], float],
    colour: str,
) -> None:
    canvas.trace(_points(top, seconds, share), colour=colour)


def _points(
    top: float, seconds: Sequence[Second], share: Callable[[Second], float]
) -> list[tuple[float, float]]:
    total = len(seconds)
    found = [
        (_x(number, total), top + _PANEL * (1 - share(each))) for number, each in enumerate(seconds)
    ]
    # Points on a level line between two others are left out.
    return [
        point
        for number, point in enumerate(found)
        if not 0 < number < total - 1
        or not abs(found[number - 1][1] - point[1]) == abs(found[number + 1][1] - point[1]) == 0
    ]


def _x(second: float, total: int) -> float:
    return _LEFT + _PLOT * second / total


def _round_up(value: float) -> float:
    """To two digits, the second even."""
    step: float = 10 ** math.floor(math.log10(value)) / 5
    return math.ceil(value / step) * step


def _short(value: float) -> str:
    if value >= 1_000_000:  # noqa: PLR2004
        return f"{value / 1_000_000:g} M"
    return f"{value / 1000:g} k" if value else "0"


if __name__ == "__main__":
    sys.exit(main())
