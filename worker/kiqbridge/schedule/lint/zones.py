"""Jobs of a local time of day whose schedule is in UTC (KB104, KB105)."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Cron
from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.sourced import SourcedSchedule

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal"})
_ALL_HOURS: Final = 24


def unsaid_zones(surroundings: Surroundings) -> Iterator[Finding]:
    """KB104: at hours of the day, in UTC because no zone is written, while others have one."""
    others = Counter(
        each.definition.when.timezone
        for each in surroundings.schedules
        if each.definition.when.timezone not in _UTC
    )
    if not others:
        return
    zone, count = others.most_common(1)[0]
    member = "ScheduleExpressionTimezone"
    for each in surroundings.schedules:
        if each.names_zone or each.kind == "Schedule" or not _has_hours(each):
            continue  # KB105 is about rules of the event bus
        when = each.definition.when
        first = when.next_after(surroundings.now)
        if when.timezone in _UTC and first is not None:
            more = "another schedule is" if count == 1 else f"{count} other schedules are"
            name = member if each.kind else "timezone"
            texts = (
                f"{each.definition.expression} has no zone, so it is in UTC; {more} in {zone}",
                _local_times(first, zone),
                f"write {name}: {zone}, or {name}: UTC if that is meant",
            )
            yield found("KB104", "warning", each, texts)


def rules_in_utc(surroundings: Surroundings) -> Iterator[Finding]:
    """KB105: a rule of the event bus with hours of the day, or with a job and so without its tick."""
    for each in surroundings.schedules:
        if each.kind == "Schedule" and (_has_hours(each) or each.definition.jobs):
            why = "it has no tick, so a repeated delivery is enqueued again"
            if _has_hours(each):
                why = "its hours are an hour later on local clocks in summer"
            texts = (
                f"{each.definition.expression} is an event of type Schedule, which knows UTC only",
                why,
                "use Type: ScheduleV2 with ScheduleExpressionTimezone and a tick in the Input",
            )
            yield found("KB105", "warning", each, texts)


def _has_hours(schedule: SourcedSchedule) -> bool:
    when = schedule.definition.when
    return isinstance(when, Cron) and len(when.fields.hours) < _ALL_HOURS


def _local_times(first: datetime, zone: str) -> str:
    """What the clock of a zone shows at this time of day (UTC) within a year."""
    times: dict[str, datetime] = {}
    for days in range(0, 365, 30):
        local = (first + timedelta(days=days)).astimezone(ZoneInfo(zone))
        times.setdefault(f"{local:%H:%M}", local)
    shown = " and ".join(f"{text} on {moment:%Y-%m-%d}" for text, moment in times.items())
    return f"{first:%H:%M} UTC is {shown} there"
