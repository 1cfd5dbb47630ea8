"""Durations, and schedules that are due every so often: `5m`, `1h30m`, `PT1H30M`, `every 30 seconds`.

What is due every so often counts elapsed time from its start, whatever the clocks do, as the `every` of
sidekiq-scheduler and EventBridge's `rate(…)` do. Months and years are refused: they have no fixed length.
"""

import re
from typing import Final

from kiqbridge.schedule.cron import LONGEST_S, Bounds, Rate, check_zone
from kiqbridge.schedule.cron_fields import ExpressionError

_SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNITS: Final = {
    "week": "w",
    "day": "d",
    "hour": "h",
    "hr": "h",
    "minute": "m",
    "min": "m",
    "second": "s",
    "sec": "s",
}
_LONG: Final = re.compile(r"([0-9]{1,9}) *([a-z]+?)s?")
_PART: Final = re.compile(r"([0-9]{1,9})([wdhms])")
_SHORT: Final = re.compile(r"(?:[0-9]{1,9}[wdhms])+")
_ISO: Final = re.compile(
    r"P(?:(?P<w>[0-9]{1,9})W)?(?:(?P<d>[0-9]{1,9})D)?"
    r"(?:T(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,9})S)?)?"
)
_CALENDAR: Final = re.compile(r"[0-9]+ *(y|M|(month|year)s?)|P[0-9.]*[0-9]+[YM].*|.*[0-9]+[yYM].*")


def parse_duration(text: str) -> int:
    """The seconds of a duration, more than 0.

    Args:
        text: `90s`, `5m`, `1h30m`, `2d`, `1w`, `5 minutes`, or ISO 8601 such as `PT1H30M`. `m` is a minute.

    Raises:
        ExpressionError: it is none, or it has months or years.
    """
    text = text.strip()
    seconds = _seconds(text)
    if seconds is None:
        if _CALENDAR.fullmatch(text):
            raise ExpressionError(
                f"duration {text!r}: months and years have no fixed length; write weeks or days, or a cron"
                " line such as 0 0 1 * * for the first of each month"
            )
        raise ExpressionError(
            f"duration {text!r} cannot be read; write whole numbers with w, d, h, m or s such as 1h30m, one"
            " number with its unit such as 5 minutes, or ISO 8601 such as PT1H30M"
        )
    if not 0 < seconds <= LONGEST_S:
        raise ExpressionError(
            f"duration {text!r} is {'0' if not seconds else 'longer than the calendar'}; write one from 1"
            " second"
        )
    return seconds


def rate_text(period_s: int) -> str:
    """A period in seconds as an expression: EventBridge's `rate(…)` if it is whole minutes, else `every 90s`."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if period_s % size == 0:
            count = period_s // size
            return f"rate({count} {unit}{'' if count == 1 else 's'})"
    return f"every {period_s}s"


def _seconds(text: str) -> int | None:
    if found := _LONG.fullmatch(text.lower()):
        unit = _UNITS.get(found[2])
        if unit is not None:
            return int(found[1]) * _SECONDS[unit]
    if _SHORT.fullmatch(text):
        parts = _PART.findall(text)
        units = [unit for _, unit in parts]
        if units == sorted(set(units), key="wdhms".index):
            return sum(int(count) * _SECONDS[unit] for count, unit in parts)
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso.groupdict().values()):
        return sum(int(count or 0) * _SECONDS[unit] for unit, count in iso.groupdict().items())
    return None


def parse_every(text: str, timezone: str, bounds: Bounds) -> Rate:
    """Read `every DURATION`.

    Raises:
        ExpressionError: naming what cannot be read.
    """
    period_s = parse_duration(text.strip()[len("every") :])
    check_zone(timezone)
    return Rate(text=text, timezone=timezone, bounds=bounds, period_s=period_s)
