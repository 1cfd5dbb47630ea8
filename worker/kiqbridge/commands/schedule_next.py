"""`kiqbridge schedule next` and `previous`: when an expression is due, before anything is deployed."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.commands.arguments import add_option, add_switch, user_input, within
from kiqbridge.commands.moments import moment_of, moment_or_now
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.schedule.cron import Rate, ScheduleExpression
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.wire.amounts import instant_text

COUNT: Final = 5
MOST: Final = 1_000_000


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verbs next and previous."""
    verb = verbs.add_parser(
        "next",
        help="when an expression is due",
        description="Print when a schedule is due next, strictly after --from. Exit 0 also if that is "
        "never, 2 if it cannot be read.",
    )
    _add_schedule(verb, start="from which a rate counts (default for a rate: --from)")
    add_option(verb, "--until", "TIME", "nothing later than this; without --count all until then")
    verb.set_defaults(command=_next)
    verb = verbs.add_parser(
        "previous",
        help="when an expression was due",
        description="Print when a schedule was due last, strictly before --from, latest first. Exit 0 also "
        "if that is never, 2 if it cannot be read.",
    )
    _add_schedule(verb, start="from which a rate counts (needed for a rate)")
    verb.set_defaults(command=_previous)


def _add_schedule(verb: argparse.ArgumentParser, *, start: str) -> None:
    what = verb.add_mutually_exclusive_group(required=True)
    add_option(
        what,
        "--expression",
        "TEXT",
        "of any form: EventBridge's such as 'cron(0 3 * * ? *)', a line of sidekiq-cron, 'every 5m', "
        "'every day at 3am'",
    )
    add_option(
        what,
        "--crontab",
        "LINE",
        "a line of a crontab as cron reads it, such as '0 3 * * * bin/backup'",
    )
    add_option(verb, "--timezone", "ZONE", "such as Europe/Paris (default: UTC)", default="UTC")
    add_option(
        verb,
        "--from",
        "TIME",
        "ISO 8601 with zone, such as 2026-03-28T00:00:00Z (default: now)",
        dest="origin",
    )
    add_option(verb, "--start", "TIME", f"StartDate of the schedule, {start}")
    add_option(verb, "--end", "TIME", "EndDate of the schedule")
    add_option(verb, "--count", "N", f"how many (default: {COUNT})", type=within(1, MOST))
    add_switch(verb, "--json", "an array of UTC instants")


def _next(options: argparse.Namespace) -> int:
    with user_input():
        after = moment_or_now("--from", options.origin)
        until = None if options.until is None else moment_of("--until", options.until)
        schedule = _schedule(options)
        if isinstance(schedule, Rate) and schedule.bounds.start is None:
            schedule = replace(schedule, bounds=replace(schedule.bounds, start=after))
        due = _after(schedule, after)
        if until is not None:
            due = itertools.takewhile(lambda instant: instant <= until, due)
        count = options.count or (COUNT if until is None else MOST)
        return _print(list(itertools.islice(due, count)), schedule, options, "never again")


def _previous(options: argparse.Namespace) -> int:
    with user_input():
        before = moment_or_now("--from", options.origin)
        schedule = _schedule(options)
        due = itertools.islice(_before(schedule, before), options.count or COUNT)
        return _print(list(due), schedule, options, "never before")


def _schedule(options: argparse.Namespace) -> ScheduleExpression:
    start = None if options.start is None else moment_of("--start", options.start)
    end = None if options.end is None else moment_of("--end", options.end)
    if options.crontab is not None:
        return parse_crontab(options.crontab, options.timezone, start=start, end=end)
    return parse_expression(options.expression, options.timezone, start=start, end=end)


def _after(schedule: ScheduleExpression, after: datetime) -> Iterator[datetime]:
    while (found := schedule.next_after(after)) is not None:
        yield found
        after = found


def _before(schedule: ScheduleExpression, before: datetime) -> Iterator[datetime]:
    while (found := schedule.latest_at_or_before(before - timedelta(microseconds=1))) is not None:
        yield found
        before = found


def _print(
    found: Sequence[datetime], schedule: ScheduleExpression, options: argparse.Namespace, none: str
) -> int:
    if options.json:
        write_json([instant_text(each) for each in found])
        return 0
    if not found:
        write_line(none)
    zone = ZoneInfo(schedule.timezone)
    clock = "%H:%M:%S" if any(each.second for each in found) else "%H:%M"
    for each in found:
        local = each.astimezone(zone)
        write_line(f"{local:%a %Y-%m-%d {clock} %Z} = {instant_text(each)}")
    return 0
