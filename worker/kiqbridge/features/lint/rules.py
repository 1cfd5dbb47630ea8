"""What may surprise the author of a schedule: rules with codes KB100 to KB111.

A rule is a function that finds something in schedules, without Redis and AWS. The doctor calls `lint`, too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from kiqbridge.features.lint import times
from kiqbridge.features.lint.finding import SEVERITIES, Finding, Surroundings, found
from kiqbridge.features.lint.load import crowds, duplicates, long_jobs, unlimited_catching_up
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.sourced import SourcedSchedule

_Rule = Callable[[Surroundings], Iterable[Finding]]

RULES: Final[Sequence[_Rule]] = (
    times.never_or_rarely,
    times.unsaid_zones,
    times.rules_in_utc,
    crowds,
    times.lost_hours,
    times.repeated_hours,
    long_jobs,
    duplicates,
    unlimited_catching_up,
)


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
    findings = [*unreadable, *(each for rule in RULES for each in rule(surroundings))]
    return sorted(
        (each for each in findings if each.code not in ignored.get(each.schedule, ())),
        key=lambda each: (SEVERITIES.index(each.severity), each.code, order[each.schedule]),
    )


def _read(schedules: Sequence[SourcedSchedule]) -> tuple[list[Finding], list[SourcedSchedule]]:
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
