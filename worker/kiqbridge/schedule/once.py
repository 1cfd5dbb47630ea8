"""Schedules that are due once, written as a time: `2027-01-31 09:00:00`, with a zone or an offset behind."""

import re
from datetime import UTC, datetime
from typing import Final

from kiqbridge.schedule.cron import At, Bounds, check_zone, first_coming
from kiqbridge.schedule.cron_fields import FIRST_YEAR, LAST_YEAR, ExpressionError

_TIME: Final = re.compile(
    r"(?:at +)?(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?)?"
    r" *(?P<zone>Z|[+-][0-9]{2}:[0-9]{2}|[A-Za-z][A-Za-z0-9_+/-]*)?"
)
_OFFSET: Final = re.compile(r"Z|[+-].*")


def parse_once(text: str, timezone: str, bounds: Bounds) -> At:
    """Read a date with a time of day (default: midnight) and a zone (default: `timezone`).

    Raises:
        ExpressionError: it is none.
    """
    moment, zone = _moment(text.strip(), timezone)
    return At(text=text, timezone=zone, bounds=bounds, moment=moment)


def _moment(text: str, timezone: str) -> tuple[datetime | None, str]:
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
    place = check_zone(name)
    if aware is not None:
        return aware.astimezone(UTC), name
    return first_coming(wall.replace(tzinfo=place)), name
