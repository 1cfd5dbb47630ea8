"""Cron lines and words as sidekiq-cron reads them, where that differs from cron's reading.

sidekiq-cron asks fugit. The differences, each written out so that the text means the same everywhere:

1. Two day fields always mean the days of either one, also if one begins with `*`: `0 0 */2 * 1` becomes
   `0 0 1-31/2 * 1`.
2. A step after one number goes on to the end: `5/10` becomes `5-59/10`.
3. `every 5 minutes` is `*/5 * * * *`, minutes of the clock and not elapsed time. Where the number does not
   divide the hour, the day or the year, fugit begins anew with each of them; that is refused, since who wrote it
   meant something else.
"""

import re
from typing import Final

from kiqbridge.schedule.cron import Cron, Rate, ScheduleExpression
from kiqbridge.schedule.cron_fields import CronFields, ExpressionError
from kiqbridge.schedule.crontab import DayFields, split_line
from kiqbridge.schedule.expression import parse_expression

_EVERY: Final = re.compile(r"every +([0-9]{1,9}) *(s|m|h|d|[a-z]{3,}?)s?( .*)?")
_GRIDS: Final = {
    "s": (60, "* * * * * *", "*/{} * * * * *", "* * * * *"),
    "m": (60, "* * * * *", "*/{} * * * *", "0 * * * *"),
    "h": (24, "0 * * * *", "0 */{} * * *", "0 0 * * *"),
    "d": (1, "0 0 * * *", "", "0 0 * * *"),
    "mo": (12, "0 0 1 * *", "0 0 1 */{} *", "0 0 1 1 *"),
}
"""Unit → how many of them the next greater one has, and the lines for each one, every n, and all of them."""
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second"), "s"),
    **dict.fromkeys(("m", "min", "minute"), "m"),
    **dict.fromkeys(("h", "hour"), "h"),
    **dict.fromkeys(("d", "day"), "d"),
    "month": "mo",
}
_LONGEST_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_HIGHEST: Final = (59, 59, 23, 31, 12, 6)


def parse_sidekiq_cron(text: str, timezone: str = "UTC") -> ScheduleExpression:
    """Read the `cron` of a sidekiq-cron or sidekiq-scheduler definition.

    Returns:
        What is due when sidekiq-cron enqueues, no `Rate`. `parse_expression` reads its `text` alike.

    Raises:
        ExpressionError: as `parse_expression`, or fugit and cron differ in a way that has no text.
    """
    begun = text.strip()
    if found := _EVERY.fullmatch(begun.lower()):
        line = _grid(begun, int(found[1]), _UNITS.get(found[2], ""), found[3] or "")
    elif re.match(r"[0-9*,L-]", begun) and not re.match(r"[0-9]{4}-", begun):
        line = _written_out(begun, timezone)
    else:
        line = begun
    parsed = parse_expression(line, timezone)
    if isinstance(parsed, Cron):
        _check_days(text, parsed.fields)
    if isinstance(parsed, Rate):
        raise ExpressionError(
            f"schedule expression {text!r}: sidekiq-cron does not read it; write a cron line, or rate(…) for"
            " elapsed time"
        )
    return parsed


def _check_days(text: str, fields: CronFields) -> None:
    """Refuse what fugit's documents say otherwise than it does (seen in 1.5.2)."""
    days = fields.day_rules[0]
    if not isinstance(days, DayFields):
        return
    counted = [day for day, _ in days.nth]
    if len(counted) > len(set(counted)):
        raise ExpressionError(
            f"schedule expression {text!r}: day of week: one weekday has several #, of which fugit before 1.7"
            " takes one alone; make it two schedules"
        )
    shortest = min(_LONGEST_MONTH[month - 1] for month in fields.months)
    is_restricted = len(fields.months) < len(_LONGEST_MONTH) and days.joined == "either"
    if is_restricted and days.dates and not days.from_end and days.dates[0] > shortest:
        raise ExpressionError(
            f"schedule expression {text!r}: day of month: fugit leaves out the months that are too short, even"
            " for the day of week; make it two schedules"
        )


def _grid(text: str, count: int, unit: str, rest: str) -> str:
    if unit not in _GRIDS or rest:
        return text
    whole, each, some, all_of_them = _GRIDS[unit]
    if count in (1, whole):
        return each if count == 1 else all_of_them
    if not count or whole % count:
        raise ExpressionError(
            f"schedule expression {text!r}: sidekiq-cron reads it as a cron line, which begins anew with each"
            " hour, day, month or year; write that line, or rate(…) for elapsed time"
        )
    return some.format(count)


def _written_out(line: str, timezone: str) -> str:
    words, zone = split_line(line, timezone)
    fields = [text for text, _ in words]
    for place, highest in enumerate(_HIGHEST[-len(fields) :]):
        items = fields[place].split(",")
        if "*" in items and len(items) > 1:
            raise ExpressionError(
                f"cron line {line!r}: '*' stands in a list, of which fugit leaves it out; write it alone"
            )
        if highest != _HIGHEST[-1]:  # after a weekday fugit does not look at a step
            fields[place] = ",".join(_stepped(item, highest) for item in items)
            if items == ["*/1"]:
                fields[place] = "*"
    day_of_month, day_of_week = fields[-3], fields[-1]
    if "*" not in (day_of_month, day_of_week) and "&" not in day_of_month + day_of_week:
        fields[-3] = re.sub(r"^\*", "1-31", day_of_month)
        fields[-1] = re.sub(r"^\*", "0-6", day_of_week)
    return " ".join([*fields, zone] if line.endswith(zone) else fields)


def _stepped(item: str, highest: int) -> str:
    # A step of 1 fugit does not look at either: both stay as they are, and are refused.
    found = re.fullmatch(r"([0-9]+)/([0-9]*[02-9]|[0-9]+1)", item)
    return item if found is None else f"{found[1]}-{highest}/{found[2]}"
