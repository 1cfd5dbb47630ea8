"""When a schedule is due, in whatever form its expression is written.

`parse_expression` reads

- EventBridge's `cron(…)`, `rate(…)` and `at(…)` (cron.py),
- cron lines as crontab and sidekiq-cron have them (crontab.py),
- `every 5m`, as sidekiq-scheduler has it (every.py), and words such as `every day at 3am` (natural.py),
- a time, for what is due once (once.py).
"""

import re
from datetime import datetime
from typing import Final

from kiqbridge.schedule.cron import Bounds, ScheduleExpression, bounds_of, parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_cron_line
from kiqbridge.schedule.every import parse_every
from kiqbridge.schedule.natural import UNDERSTOOD, parse_natural
from kiqbridge.schedule.once import parse_once

_CALL: Final = re.compile(r"(cron|rate|at)\s*\(")
_EVERY_SO_OFTEN: Final = re.compile(r"every +[0-9P][^ ]*( *[a-z]+)?", re.IGNORECASE)
_ONCE: Final = re.compile(r"(at +)?[0-9]{4}-[0-9]")
_DURATION: Final = re.compile(r"[0-9P][0-9A-Za-z]*")
_WORDS: Final = re.compile(r"(every|from|at)\b", re.IGNORECASE)
_LINE: Final = re.compile(r"[0-9*,@L-]|CRON_TZ=", re.IGNORECASE)


def parse_expression(
    text: str,
    timezone: str = "UTC",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> ScheduleExpression:
    """Read an expression of any form; see `cron.parse` for the arguments.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    if _CALL.match(text.strip()):
        return parse(text, timezone, start=start, end=end)
    try:
        return _read(text, timezone, bounds_of(start, end))
    except ExpressionError as error:
        raise ExpressionError(f"schedule expression {text!r}: {error}") from None


def _read(text: str, timezone: str, bounds: Bounds) -> ScheduleExpression:
    begun = text.strip()
    if _EVERY_SO_OFTEN.fullmatch(begun) and not re.match(r"every +[0-9]+(st|nd|rd|th)", begun):
        return parse_every(text, timezone, bounds)
    if _ONCE.match(begun):
        return parse_once(text, timezone, bounds)
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
