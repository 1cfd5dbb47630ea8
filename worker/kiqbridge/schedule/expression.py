"""When a schedule is due, in whatever form its expression is written.

`parse_expression` reads

- EventBridge's `cron(…)`, `rate(…)` and `at(…)` (cron.py),
- cron lines as crontab and sidekiq-cron have them (crontab.py),
- `every 5m`, as sidekiq-scheduler has it, and words such as `every day at 3am` (natural.py),
- a time, for what is due once: `2027-01-31 09:00:00`, with a zone or an offset behind.

What is due every so often counts elapsed time from its start, whatever the clocks do, as the `every` of
sidekiq-scheduler and EventBridge's `rate(…)` do. Months and years are refused: they have no fixed length.
"""

import re
from datetime import UTC, datetime
from typing import Final

from kiqbridge.schedule import cron
from kiqbridge.schedule.cron_fields import FIRST_YEAR, LAST_YEAR, ExpressionError
from kiqbridge.schedule.crontab import parse_cron_line
from kiqbridge.schedule.natural import UNDERSTOOD, parse_natural

_CALL: Final = re.compile(r"(cron|rate|at)\s*\(")
_EVERY_SO_OFTEN: Final = re.compile(r"every +[0-9P][^ ]*( *[a-z]+)?", re.IGNORECASE)
_IS_ONCE: Final = re.compile(r"(at +)?[0-9]{4}-[0-9]")
_DURATION: Final = re.compile(r"[0-9P][0-9A-Za-z]*")
_WORDS: Final = re.compile(r"(every|from|at)\b", re.IGNORECASE)
_LINE: Final = re.compile(r"[0-9*,@L-]|CRON_TZ=", re.IGNORECASE)


def parse_expression(
    text: str, timezone: str = "UTC", *, start: datetime | None = None, end: datetime | None = None
) -> cron.ScheduleExpression:
    """Read an expression of any form; see `cron.parse` for the arguments.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    if _CALL.match(text.strip()):
        return cron.parse(text, timezone, start=start, end=end)
    try:
        return _read(text, timezone, cron.bounds_of(start, end))
    except ExpressionError as error:
        raise ExpressionError(f"schedule expression {text!r}: {error}") from None


def _read(text: str, timezone: str, bounds: cron.Bounds) -> cron.ScheduleExpression:
    begun = text.strip()
    if _EVERY_SO_OFTEN.fullmatch(begun) and not re.match(r"every +[0-9]+(st|nd|rd|th)", begun):
        period_s = parse_duration(text.strip()[len("every") :])
        cron.check_zone(timezone)
        return cron.Rate(text=text, timezone=timezone, bounds=bounds, period_s=period_s)
    if _IS_ONCE.match(begun):
        # A date with a time of day (default: midnight) and a zone (default: `timezone`).
        moment, zone = _placed(text.strip(), timezone)
        return cron.At(text=text, timezone=zone, bounds=bounds, moment=moment)
    if _WORDS.match(begun):
        return parse_natural(text, timezone, bounds)
    if _DURATION.fullmatch(begun):
        raise ExpressionError(f"is a duration alone; write every {begun} for elapsed time")
    if _LINE.match(begun):
        return parse_cron_line(text, timezone, bounds)
    if begun.lower().startswith("in "):
        raise ExpressionError(
            "counts from the moment in which it is read; write the time itself, such as at(2027-01-31T09:00:00),"
            " or enqueue the job with perform_in"
        )
    raise ExpressionError(
        "is none of cron(…), rate(…) and at(…) of EventBridge, a cron line such as 0 3 * * *, a time such as"
        f" 2027-01-31 09:00:00, or words: {UNDERSTOOD}"
    )


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
    if not 0 < seconds <= cron.LONGEST_S:
        raise ExpressionError(
            f"duration {text!r} is {'0' if not seconds else 'longer than the calendar'}; write one from 1 second"
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


_TIME: Final = re.compile(
    r"(?:at +)?(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?)?"
    r" *(?P<zone>Z|[+-][0-9]{2}:[0-9]{2}|[A-Za-z][A-Za-z0-9_+/-]*)?"
)
_OFFSET: Final = re.compile(r"Z|[+-].*")


def _placed(text: str, timezone: str) -> tuple[datetime | None, str]:
    wrong = ExpressionError(
        f"is no time from {FIRST_YEAR} to {LAST_YEAR}; write a text such as 2027-01-31 09:00:00, with a zone"
        " such as Europe/Paris, Z or +01:00 behind if it is meant in that"
    )
    found = _TIME.fullmatch(text)
    if found is None:
        raise wrong
    zone = found["zone"] or ""
    is_offset = bool(_OFFSET.fullmatch(zone))
    name = timezone if is_offset else zone or timezone
    clock = f"{found['hour'] or '00'}:{found['minute'] or '00'}:{found['second'] or '00'}"
    try:
        # Not fromisoformat alone: since Python 3.14 it takes 24:00:00 as the next day.
        wall = datetime.strptime(f"{found['date']}T{clock}", "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - below
        aware = datetime.fromisoformat(f"{found['date']}T{clock}{zone}") if is_offset else None
    except ValueError:
        raise wrong from None
    if not FIRST_YEAR <= wall.year <= LAST_YEAR:
        raise wrong
    place = cron.check_zone(name)
    if aware is not None:
        return aware.astimezone(UTC), name
    return cron.first_coming(wall.replace(tzinfo=place)), name
