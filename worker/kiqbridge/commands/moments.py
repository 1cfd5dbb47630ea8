"""Times that a user writes on the command line; how they are written is in wire/amounts.py."""

from datetime import UTC, datetime
from typing import Final

from kiqbridge.schedule.cron_fields import FIRST_YEAR, LAST_YEAR, ExpressionError

_DATE_LENGTH: Final = len("2026-03-28")


def moment_of(option: str, text: str) -> datetime:
    """A time in UTC, of ISO 8601 with a zone; a date alone is its midnight in UTC.

    It is in the years in which schedules are due, so that what follows it is, too.

    Raises:
        ExpressionError: it is none; names the option.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ExpressionError(
            f"{option}: {text!r} is no ISO 8601 time; write a text such as 2026-03-28T00:00:00Z"
        ) from error
    if not FIRST_YEAR < moment.year < LAST_YEAR:  # a year less, for offsets and what is around it
        raise ExpressionError(
            f"{option}: {text!r} is not in the years {FIRST_YEAR + 1}-{LAST_YEAR - 1}, those of schedules"
        )
    if moment.tzinfo is None and len(text) == _DATE_LENGTH:
        return moment.replace(tzinfo=UTC)
    if moment.tzinfo is None:
        raise ExpressionError(
            f"{option}: {text!r} has no time zone; append Z, or an offset such as +01:00"
        )
    return moment.astimezone(UTC)


def moment_or_now(option: str, text: str | None) -> datetime:
    """As `moment_of`; now, if nothing was given."""
    return datetime.now(UTC) if text is None else moment_of(option, text)
