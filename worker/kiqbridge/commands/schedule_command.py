"""`kiqbridge schedule`: see when schedules are due, check, simulate and import them; save, pause and run them.

They are those of templates (EventBridge's expressions), crontab lines and dynamic ones.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from kiqbridge.commands import schedule_list
from kiqbridge.commands.arguments import Verbs, add, add_verb, add_verbs, user_input, within
from kiqbridge.commands.output import answer
from kiqbridge.commands.pause_command import add_pause_verbs
from kiqbridge.schedule.cron import Rate, ScheduleExpression
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.wire.amounts import instant_text

COUNT: Final = 5
MOST: Final = 1_000_000


def _add_due(verbs: "Verbs[Any]") -> None:
    """The verbs next and previous: when an expression is due."""
    following = add_verb(
        verbs,
        "next",
        _next,
        "when an expression is due",
        "kiqbridge schedule next --expression 'cron(0 3 * * ? *)' --timezone Europe/Paris --count 5",
    )
    previous = add_verb(
        verbs,
        "previous",
        _previous,
        "when an expression was due",
        "kiqbridge schedule previous --crontab '30 8 * * 1-5' --count 3",
    )
    for verb, default in (
        (following, "default for a rate: --from"),
        (previous, "needed for a rate"),
    ):
        what = verb.add_mutually_exclusive_group(required=True)
        text = "of any form: EventBridge's such as 'cron(0 3 * * ? *)', a line of sidekiq-cron, 'every 5m', 'every "
        add(what, "--expression TEXT", text + "day at 3am'")
        text = "a line of a crontab as cron reads it, such as '0 3 * * * bin/backup'"
        add(what, "--crontab LINE", text)
        add(verb, "--timezone ZONE", "such as Europe/Paris (default: UTC)", default="UTC")
        text = "ISO 8601 with zone, such as 2026-03-28T00:00:00Z (default: now)"
        add(verb, "--from TIME", text)
        text = f"StartDate of the schedule, from which a rate counts ({default})"
        add(verb, "--start TIME", text)
        add(verb, "--end TIME", "EndDate of the schedule")
        add(verb, "--count N", f"how many (default: {COUNT})", type=within(1, MOST))
        add(verb, "--json", "an array of UTC instants")
    text = "nothing later than this; without --count all until then"
    add(following, "--until TIME", text)


def _next(options: argparse.Namespace) -> int:
    """Print when a schedule is due next, strictly after --from. Exit 0 also if that is never, 2 if it cannot be read."""
    after, until = options.from_ or datetime.now(UTC), options.until
    with user_input():
        schedule = _schedule(options)
        if isinstance(schedule, Rate) and schedule.bounds.start is None:
            schedule = replace(schedule, bounds=replace(schedule.bounds, start=after))
        due = schedule.after(after)
        if until is not None:
            due = itertools.takewhile(lambda instant: instant <= until, due)
        count = options.count or (COUNT if until is None else MOST)
        return _print(options, schedule, due, count, "never again")


def _previous(options: argparse.Namespace) -> int:
    """Print when a schedule was due last, strictly before --from, latest first.

    Exit 0 also if that is never, 2 if it cannot be read.
    """
    with user_input():
        schedule = _schedule(options)
        due = schedule.until((options.from_ or datetime.now(UTC)) - timedelta(microseconds=1))
        return _print(options, schedule, due, options.count or COUNT, "never before")


def _schedule(options: argparse.Namespace) -> ScheduleExpression:
    bounds = {"start": options.start, "end": options.end}
    if options.crontab is not None:
        return parse_crontab(options.crontab, options.timezone, **bounds)
    return parse_expression(options.expression, options.timezone, **bounds)


def _print(
    options: argparse.Namespace,
    schedule: ScheduleExpression,
    due: Iterator[datetime],
    count: int,
    none: str,
) -> int:
    found = list(itertools.islice(due, count))
    zone = ZoneInfo(schedule.timezone)
    clock = "%H:%M:%S" if any(each.second for each in found) else "%H:%M"
    lines = (f"{at.astimezone(zone):%a %Y-%m-%d {clock} %Z} = {instant_text(at)}" for at in found)
    return answer(options, [instant_text(each) for each in found], lines if found else [none])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of schedule."""
    verbs = add_verbs(parser)
    _add_due(verbs)
    schedule_list.add_arguments(verbs)
    about = "Pause schedules, those of templates as well: what comes due meanwhile is not caught up. What was placed "
    about += "ahead is withdrawn; jobs that are in a queue run."
    add_pause_verbs(verbs, "schedule", "stop schedules from firing", description=about)
