"""Schedules that never or rarely fire, that are in UTC by mistake, or that a change of the clocks hits (KB101 to KB105, KB107, KB108)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.features.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.cron import At, Cron
from kiqbridge.schedule.cron_fields import FIRST_YEAR
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.schedule.zone_changes import ZoneChange, next_change

_YEAR: Final = timedelta(days=366)

_BEGINNING: Final = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - timedelta(days=1)

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal"})

_ALL_HOURS: Final = 24
_YEARS: Final = timedelta(days=2 * 365)

_MINUTE: Final = timedelta(minutes=1)


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
            # What the clock of a zone shows at this time of day (UTC) within a year.
            times: dict[str, datetime] = {}
            for days in range(0, 365, 30):
                local = (first + timedelta(days=days)).astimezone(ZoneInfo(zone))
                times.setdefault(f"{local:%H:%M}", local)
            shown = " and ".join(f"{text} on {moment:%Y-%m-%d}" for text, moment in times.items())
            texts = (
                f"{each.definition.expression} has no zone, so it is in UTC; {more} in {zone}",
                f"{first:%H:%M} UTC is {shown} there",
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
                f"{each.definition.expression} is an event of type Schedule, which has UTC only",
                why,
                "use Type: ScheduleV2 with ScheduleExpressionTimezone and a tick in the Input",
            )
            yield found("KB105", "warning", each, texts)


def _has_hours(schedule: SourcedSchedule) -> bool:
    when = schedule.definition.when
    return isinstance(when, Cron) and len(when.fields.hours) < _ALL_HOURS


def changes_of(zone: str, now: datetime) -> list[ZoneChange]:
    """When a zone's clocks change within two years after now."""
    changes: list[ZoneChange] = []
    last = now
    while (change := next_change(zone, last)) is not None and change.instant <= now + _YEARS:
        changes.append(change)
        last = change.instant
    return changes


def lost_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB107: what is left out, of schedules that do not fire at all hours."""
    for each, when, changes in _with_changes(surroundings):
        gaps = [change for change in changes if change.is_forward]
        dates = _dates(when, gaps)
        if dates and _has_hours(each):
            first, end = gaps[0].span
            texts = (
                f"{when.text}: {_listed(dates)} does not exist in {when.timezone}",
                "it is left out on that day, since the clock goes forward",
                f"write a time outside of {first:%H:%M}-{end - _MINUTE:%H:%M}, or use UTC if the hour does not matter",
            )
            yield found("KB107", "warning", each, texts)


def repeated_hours(surroundings: Surroundings) -> Iterator[Finding]:
    """KB108: what comes twice fires once; who fires every hour is silent for one."""
    for each, when, changes in _with_changes(surroundings):
        repeats = [change for change in changes if not change.is_forward]
        dates = _dates(when, repeats)
        if not dates:
            continue
        if not _has_hours(each):
            days = ", ".join(f"{change.before:%Y-%m-%d}" for change in repeats)
            texts = (
                f"{when.text} fires every hour, in {when.timezone}",
                f"in the hour that comes twice it fires only the first time, so it pauses for an hour on {days}",
                "write UTC as its zone: the hour of the day does not matter to it",
            )
        else:
            texts = (
                f"{when.text}: {_listed(dates)} comes twice in {when.timezone}",
                "it fires the first time only, as Scheduler does",
                "nothing, if once a day is meant",
            )
        yield found("KB108", "note", each, texts)


def _with_changes(
    surroundings: Surroundings,
) -> Iterator[tuple[SourcedSchedule, Cron, Sequence[ZoneChange]]]:
    known: dict[str, list[ZoneChange]] = {}
    for each in surroundings.schedules:
        when = each.definition.when
        if isinstance(when, Cron):
            if when.timezone not in known:
                known[when.timezone] = changes_of(when.timezone, surroundings.now)
            yield each, when, known[when.timezone]


def _dates(when: Cron, changes: Sequence[ZoneChange]) -> list[datetime]:
    """The first time of each change that the schedule names."""
    due = (change.times_of(when) for change in changes if when.bounds.contain(change.instant))
    return [times[0] for times in due if times]


def _listed(dates: Sequence[datetime]) -> str:
    days = " and ".join(f"{date:%Y-%m-%d}" for date in dates)
    return f"{dates[0]:%H:%M} on {days}"
