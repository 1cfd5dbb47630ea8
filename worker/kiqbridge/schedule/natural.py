"""Schedules in words: `every day at 3am`, `every monday and friday at 9:30 Europe/Paris`.

Read is what fugit's README documents and what has one meaning: each text becomes a cron line. What fugit reads
otherwise from version to version, or takes only in part (`every day at 16:15 and 18:30` is due at 16:15 alone
there), is refused.
"""

import re
from dataclasses import replace
from typing import Final

from kiqbridge.schedule.cron import Bounds, Cron
from kiqbridge.schedule.cron_fields import WEEKDAYS, ExpressionError
from kiqbridge.schedule.crontab import parse_cron_line

UNDERSTOOD: Final = (
    "every 5 minutes, for elapsed time; every minute, hour, day, week, month or year; every day at 3am; every"
    " weekday at 9:30; every monday and friday at noon; from monday to friday at 17:00; every 1st and 15th of the month at 4pm;"
    " every month on the 1st at 5pm; every hour at minute 30; each but the first with a time zone behind,"
    " such as Europe/Paris"
)
"""One example of each form."""

_UNITS: Final = {
    "second": "* * * * * *",
    "minute": "* * * * *",
    "hour": "0 * * * *",
    "day": "0 0 * * *",
    "week": "0 0 * * 0",
    "month": "0 0 1 * *",
    "year": "0 0 1 1 *",
}
_NUMBERS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_FULL_WEEKDAYS: Final = {
    **{name.lower(): name for name in WEEKDAYS},
    **dict(
        zip(
            ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"),
            WEEKDAYS,
            strict=True,
        )
    ),
}
_AND: Final = r"(?: ?, ?(?:and )?| and | or )"
_TIME: Final = (
    rf"(?:noon|midnight|(?:[0-9]{{1,2}}(?::[0-9]{{2}})?|{'|'.join(_NUMBERS)})(?: ?[ap]m)?)"
)
_TIMES: Final = rf"(?P<times>{_TIME}(?:{_AND}{_TIME})*)"
_DAYS_AND_TIMES: Final = re.compile(rf"(?:every|from) (?P<days>.+?)(?: (?:at )?{_TIMES})?")
_TIMES_FIRST: Final = re.compile(rf"at {_TIMES} (?P<days>every .+)")
_AT_MINUTE: Final = re.compile(
    r"every (?:(?P<hours>[0-9]{1,2}) )?hours? at minute (?P<minute>[0-9]{1,2})"
)
_NTH: Final = r"(?:the )?(?:[0-9]{1,2}(?:st|nd|rd|th)|first)"
_NTHS: Final = rf"(?P<nths>{_NTH}(?:{_AND}{_NTH})*)"
_DATES: Final = re.compile(
    rf"(?:{_NTHS} (?:day )?of (?:the|each|every) month)|(?:month on {_NTHS.replace('nths', 'on')})"
)
_CLOCK: Final = re.compile(
    r"(?P<hour>[0-9]{1,2}|[a-z]+?)(?::(?P<minute>[0-9]{2}))? ?(?P<half>[ap]m)?"
)
_ZONE: Final = re.compile(r"(.+?)(?: (?:in|on))? ([A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+|UTC)")
_HOURS_OF_DAY, _NOON = 24, 12


def parse_natural(text: str, timezone: str, bounds: Bounds) -> Cron:
    """Read a schedule in words.

    Raises:
        ExpressionError: it is none of the forms that are understood, or has more than one meaning.
    """
    return replace(parse_cron_line(cron_line_of(text), timezone, bounds), text=text)


def cron_line_of(text: str) -> str:
    """The cron line that says the same.

    Raises:
        ExpressionError: as `parse_natural`.
    """
    words, zone = " ".join(text.split()), ""
    if found := _ZONE.fullmatch(words):
        words, zone = found[1], f" {found[2]}"
    return _line(words.lower()) + zone


def _line(words: str) -> str:
    if words.removeprefix("every ") in _UNITS:
        return _UNITS[words.removeprefix("every ")]
    if found := _AT_MINUTE.fullmatch(words):
        return _hours_at_minute(int(found["hours"] or 1), found["minute"])
    if found := _TIMES_FIRST.fullmatch(words):
        words = f"{found['days']} at {found['times']}"
    found = _DAYS_AND_TIMES.fullmatch(words)
    days = found and _days(found["days"])
    if not found or not days:
        raise ExpressionError(f"is none of the forms that are understood: {UNDERSTOOD}")
    minute, hours = _clock_times(found["times"] or "midnight")
    return f"{minute} {hours} {days}"


def _hours_at_minute(hours: int, minute: str) -> str:
    if not hours or _HOURS_OF_DAY % hours:
        raise ExpressionError(
            f"every {hours} hours: does not divide the day; write every {hours} hours alone for elapsed time"
        )
    return f"{minute} {'*' if hours == 1 else f'*/{hours}'} * * *"


def _days(words: str) -> str | None:
    """Day of month, month and day of week of a line."""
    if words == "day":
        return "* * *"
    if words == "weekday":
        return "* * MON-FRI"
    if found := _DATES.fullmatch(words):
        dates = re.findall(r"[0-9]+|first", found["nths"] or found["on"])
        return f"{','.join('1' if date == 'first' else date for date in dates)} * *"
    span = re.fullmatch(r"([a-z]+)(?: to | ?- ?)([a-z]+)", words)
    names = [span[1], span[2]] if span else re.split(_AND, words)
    if not all(name in _FULL_WEEKDAYS for name in names):
        return None
    return f"* * {('-' if span else ',').join(_FULL_WEEKDAYS[name] for name in names)}"


def _clock_times(words: str) -> tuple[int, str]:
    """The minute, and the hours of a line."""
    times = [_clock_time(word) for word in re.split(_AND, words)]
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise ExpressionError(
            f"at {words}: these times have different minutes, of which sidekiq-cron takes the first alone; make"
            " it two schedules"
        )
    return minutes.pop(), ",".join(str(hour) for hour in sorted({hour for hour, _ in times}))


def _clock_time(word: str) -> tuple[int, int]:
    if word in ("noon", "midnight"):
        return (_NOON if word == "noon" else 0), 0
    found = _CLOCK.fullmatch(word)
    assert found is not None  # noqa: S101 - _TIMES has matched
    text, half = found["hour"], found["half"]
    hour = _NUMBERS.index(text) if text in _NUMBERS else int(text)
    minute = int(found["minute"] or 0)
    if half and hour == _NOON and half == "am":
        raise ExpressionError(
            f"at {word}: noon in fugit before 1.7.2, midnight since; write midnight, noon or a time such as 00:15"
        )
    if hour >= _HOURS_OF_DAY or minute >= 60 or (half and not 1 <= hour <= _NOON):  # noqa: PLR2004 - a clock
        raise ExpressionError(f"at {word}: is no time of day; write one such as 3am or 15:30")
    return hour + (_NOON if half == "pm" and hour != _NOON else 0), minute
