"""Schedules that never fire, not any more, or less than once a year (KB101 to KB103)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from kiqbridge.schedule.cron import At, Cron
from kiqbridge.schedule.cron_fields import FIRST_YEAR
from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.sourced import SourcedSchedule

_YEAR: Final = timedelta(days=366)
_BEGINNING: Final = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - timedelta(days=1)


def never_or_rarely(surroundings: Surroundings) -> Iterator[Finding]:
    """KB101, KB102 and KB103."""
    for each in surroundings.schedules:
        when = each.definition.when
        first = when.next_after(surroundings.now)
        if first is None:
            yield _past(each, when.latest_at_or_before(surroundings.now))
            continue
        second = when.next_after(first)
        # From one to the next, not from now: a yearly one may have its first a year ahead.
        is_rare = first - surroundings.now > _YEAR or (second and second - first > _YEAR)
        if is_rare and not isinstance(when, At):
            following = f", then {second:%Y-%m-%d}" if second else " for the last time"
            texts = (
                f"{each.definition.expression} fires on {first:%Y-%m-%d %H:%M} UTC{following}",
                "a job that runs so rarely is often meant to run every year or month",
                "check day and month; for the last day of a month write L as the day",
            )
            yield found("KB103", "warning", each, texts)


def _past(schedule: SourcedSchedule, last: datetime | None) -> Finding:
    definition = schedule.definition
    if last is not None:
        texts = (
            f"{definition.expression} fired for the last time on {last:%Y-%m-%d %H:%M} UTC",
            "nothing is enqueued any more",
            "remove it, or give it a later end or year",
        )
        return found("KB102", "warning", schedule, texts)
    when = definition.when
    why = "nothing is ever enqueued"
    if isinstance(when, Cron) and not _has_days(when):
        why = "no month that it names has such a day: nothing is ever enqueued"
    elif isinstance(when, At):
        why = "its time is outside of start and end, or left out by the clock: nothing is enqueued"
    elif definition.start or definition.end:
        why = "nothing falls between its start and its end: nothing is ever enqueued"
    advice = "correct the date, or remove it; for the last day of a month write L as the day"
    texts = (f"{definition.expression} in {when.timezone} never fires", why, advice)
    return found("KB101", "error", schedule, texts)


def _has_days(when: Cron) -> bool:
    """Whether its fields name a day of any year, whatever its start and end."""
    return next(when.fields.walk(_BEGINNING), None) is not None
