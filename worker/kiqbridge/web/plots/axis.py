"""Where the lines of an axis are: at round values, and at round times of UTC."""

import math
from datetime import UTC, datetime
from typing import Final

_STEPS_S: Final = tuple(
    60 * minutes
    for minutes in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10080)
)
_DAY_S: Final = 86_400


def value_ticks(most: float, count: int = 4, *, whole: bool = True) -> list[float]:
    """Round values from 0 to at least `most`, about `count` steps of 1, 2 or 5 times a power of ten.

    Args:
        most: the highest value that is drawn.
        count: how many steps are wanted.
        whole: only whole numbers, as counts are.
    """
    if not math.isfinite(most) or most <= 0:
        return [0.0, 1.0]
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(first: float, last: float, count: int = 6) -> list[int]:
    """Round times of UTC from `first` to `last` (epoch seconds), at most `count` + 1."""
    rough = max(1.0, (last - first) / count)
    step = next((each for each in _STEPS_S if each >= rough), _STEPS_S[-1])
    while (last - first) / step > count:
        step *= 2
    return list(range(math.ceil(first / step) * step, math.floor(last) + 1, step))


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
