"""All rules, applied: `lint`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.lint.clock_changes import lost_hours, repeated_hours
from kiqbridge.schedule.lint.crowds import crowds
from kiqbridge.schedule.lint.finding import SEVERITIES, Finding, Surroundings, found
from kiqbridge.schedule.lint.firing import never_or_rarely
from kiqbridge.schedule.lint.repeats import duplicates, long_jobs, unlimited_catching_up
from kiqbridge.schedule.lint.zones import rules_in_utc, unsaid_zones
from kiqbridge.schedule.sourced import SourcedSchedule

_Rule = Callable[[Surroundings], Iterable[Finding]]

RULES: Final[Sequence[_Rule]] = (
    never_or_rarely,
    unsaid_zones,
    rules_in_utc,
    crowds,
    lost_hours,
    repeated_hours,
    long_jobs,
    duplicates,
    unlimited_catching_up,
)

CODES: Final[Mapping[str, str]] = {
    "KB100": "the expression cannot be read",
    "KB101": "it never fires",
    "KB102": "it does not fire any more",
    "KB103": "it fires less than once a year",
    "KB104": "no zone is written down, so it is UTC, while others have a zone",
    "KB105": "a rule of the event bus knows UTC only",
    "KB106": "many schedules fire at the same minute",
    "KB107": "it falls into an hour that is left out when the clock goes forward",
    "KB108": "it falls into an hour that comes twice when the clock goes back",
    "KB109": "its jobs take longer than its interval",
    "KB110": "two schedules enqueue the same job at the same time",
    "KB111": "all missed ticks are caught up, however old",
}


def lint(
    schedules: Sequence[SourcedSchedule],
    *,
    now: datetime,
    took_s: Mapping[str, Sequence[float]] | None = None,
    crowd: int = 5,
) -> list[Finding]:
    """What the rules find, the worst first; what a comment beside a schedule switches off is left out.

    Args:
        schedules: from any source.
        now: aware; the rules look at what comes after it.
        took_s: name of a schedule → seconds that its last jobs took.
        crowd: how many schedules at one minute are too many.
    """
    unreadable, readable = _read(schedules)
    surroundings = Surroundings(
        schedules=[each for each in readable if each.definition.enabled],
        now=now,
        took_s=took_s or {},
        crowd=crowd,
    )
    ignored = {each.name: each.ignored for each in schedules}
    order = {each.name: index for index, each in enumerate(schedules)}
    findings = [*unreadable, *_applied(surroundings)]
    return sorted(
        (each for each in findings if each.code not in ignored.get(each.schedule, ())),
        key=lambda each: (SEVERITIES.index(each.severity), each.code, order[each.schedule]),
    )


def _applied(surroundings: Surroundings) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(surroundings)


def _read(
    schedules: Sequence[SourcedSchedule],
) -> tuple[list[Finding], list[SourcedSchedule]]:
    unreadable, readable = [], []
    for each in schedules:
        try:
            _ = each.definition.when
        except ExpressionError as error:
            texts = (str(error), "it never fires", "correct the expression, and save it again")
            unreadable.append(found("KB100", "error", each, texts))
        else:
            readable.append(each)
    return unreadable, readable
