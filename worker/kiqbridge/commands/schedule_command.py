"""`kiqbridge schedule`: its verbs, and `next`: when an expression is due, before anything is deployed."""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from kiqbridge.commands import (
    schedule_history,
    schedule_hold,
    schedule_import,
    schedule_lint,
    schedule_plan,
    schedule_save,
    schedule_simulate,
)
from kiqbridge.schedule.cron import Rate, ScheduleExpression, parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_crontab

COUNT = 5
USAGE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb next, and those of other modules."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verb = verbs.add_parser(
        "next",
        help="when it is due",
        description="Print when a schedule is due next, strictly after --from. Exit 0 also if that is "
        "never, 2 if it cannot be read.",
    )
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--expression", metavar="TEXT", help="EventBridge's, such as 'cron(0 3 * * ? *)'"
    )
    what.add_argument("--crontab", metavar="LINE", help="a line of a crontab, such as '0 3 * * *'")
    verb.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="such as Europe/Paris (default: UTC)"
    )
    verb.add_argument(
        "--from",
        dest="after",
        metavar="TIME",
        help="ISO 8601 with zone, such as 2026-03-28T00:00:00Z (default: now)",
    )
    verb.add_argument(
        "--start",
        metavar="TIME",
        help="StartDate of the schedule, from which a rate counts (default for a rate: --from)",
    )
    verb.add_argument("--end", metavar="TIME", help="EndDate of the schedule")
    verb.add_argument(
        "--count", type=_count, default=COUNT, metavar="N", help=f"how many (default: {COUNT})"
    )
    verb.add_argument("--json", action="store_true", help="an array of UTC instants")
    verb.set_defaults(command=_next)
    schedule_lint.add_arguments(verbs)
    schedule_plan.add_arguments(verbs)
    schedule_simulate.add_arguments(verbs)
    schedule_import.add_arguments(verbs)
    schedule_history.add_arguments(verbs)
    schedule_save.add_arguments(verbs)
    schedule_hold.add_arguments(verbs)


def _next(options: argparse.Namespace) -> int:
    try:
        after = datetime.now(UTC) if options.after is None else _moment("--from", options.after)
        schedule = _schedule(options, after)
        found = list(itertools.islice(_after(schedule, after), options.count))
    except ExpressionError as error:
        sys.stderr.write(f"kiqbridge: {error}\n")
        return USAGE
    if options.json:
        sys.stdout.write(json.dumps([_instant(each) for each in found]) + "\n")
    elif found:
        zone = ZoneInfo(schedule.timezone)
        for each in found:
            local = each.astimezone(zone)
            sys.stdout.write(f"{local:%a %Y-%m-%d %H:%M %Z} = {_instant(each)}\n")
    else:
        sys.stdout.write("never again\n")
    return 0


def _schedule(options: argparse.Namespace, after: datetime) -> ScheduleExpression:
    start = None if options.start is None else _moment("--start", options.start)
    end = None if options.end is None else _moment("--end", options.end)
    if options.crontab is not None:
        return parse_crontab(options.crontab, options.timezone, start=start, end=end)
    schedule = parse(options.expression, options.timezone, start=start, end=end)
    if isinstance(schedule, Rate) and start is None:
        schedule = parse(options.expression, options.timezone, start=after, end=end)
    return schedule


def _after(schedule: ScheduleExpression, after: datetime) -> Iterator[datetime]:
    while (found := schedule.next_after(after)) is not None:
        yield found
        after = found


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ExpressionError(
            f"{name}: {text!r} is no ISO 8601 time; write a text such as 2026-03-28T00:00:00Z"
        ) from error
    if moment.tzinfo is None:
        raise ExpressionError(
            f"{name}: {text!r} has no time zone; append Z, or an offset such as +01:00"
        )
    return moment


def _instant(moment: datetime) -> str:
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:  # noqa: PLR2004 - as in the message
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1,000,000")
    return int(text)
