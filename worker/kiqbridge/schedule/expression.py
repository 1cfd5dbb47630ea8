"""When a schedule is due, in whatever form its expression is written.

`parse_expression` reads EventBridge's `cron(…)`, `rate(…)` and `at(…)` (cron.py), crontab lines (crontab.py)
and `every 5m` (every.py).
"""

from datetime import datetime

from kiqbridge.schedule.cron import ScheduleExpression, parse
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.every import parse_every

_CALLS = ("cron(", "rate(", "at(")


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
    if text.strip().startswith(_CALLS):
        return parse(text, timezone, start=start, end=end)
    if text.strip().lower().startswith("every"):
        return parse_every(text, timezone, start=start, end=end)
    return parse_crontab(text, timezone, start=start, end=end)
