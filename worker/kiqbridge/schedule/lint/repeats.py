"""Jobs that meet themselves: longer than their interval, enqueued twice, caught up in masses (KB109 to KB111)."""

import itertools
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.simulation import DAY_S, occurrences
from kiqbridge.schedule.sourced import SourcedSchedule

_DAYS: Final = 35
_MANY: Final = 48
"""More than two an hour: after a day of absence they are a burst."""
_SHARE: Final = 0.95
_MOST: Final = 10
"""So many others are named."""


def long_jobs(surroundings: Surroundings) -> Iterator[Finding]:
    """KB109: one of twenty jobs takes longer than the shortest interval, by the ledger."""
    for each in surroundings.schedules:
        took = sorted(surroundings.took_s.get(each.name, ()))
        if not took:
            continue
        longest = took[min(int(len(took) * _SHARE), len(took) - 1)]
        interval_s = _interval_s(each, surroundings.start)
        if interval_s is None or longest <= interval_s:
            continue
        policy = each.definition.overlap
        why, advice = {
            "allow": (
                "two of them run at the same time",
                "fire it less often, or say overlap: skip (or cancel) if two must not run at once",
            ),
            "skip": ("some ticks run no job (overlap: skip)", "fire it less often"),
            "cancel": (
                "it is cancelled before it ends (overlap: cancel)",
                "fire it less often, or say overlap: skip",
            ),
        }[policy]
        texts = (
            f"it fires every {interval_s:,} s, and its jobs take {longest:,.0f} s ({len(took)} runs)",
            why,
            advice,
        )
        yield found("KB109", "warning", each, texts)


def duplicates(surroundings: Surroundings) -> Iterator[Finding]:
    """KB110: the same class and arguments at the same instants."""
    start = surroundings.start
    end = start + _DAYS * DAY_S
    groups: dict[str, list[SourcedSchedule]] = {}
    for each in surroundings.schedules:
        if each.definition.jobs:
            groups.setdefault(_jobs_key(each), []).append(each)
    for group in groups.values():
        if len(group) == 1:
            continue
        instants = [set(occurrences(each.definition.when, start, end)) for each in group]
        same: set[int] = set()
        for index, each in enumerate(group):
            if index in same:
                continue  # it is named with the first one
            met = [
                (other, instants[index] & instants[other])
                for other in range(index + 1, len(group))
                if instants[index] & instants[other]
            ]
            same |= {other for other, _ in met if instants[other] == instants[index]}
            if met:
                others = [(group[other], common, other in same) for other, common in met]
                yield _duplicate(each, others)


def unlimited_catching_up(surroundings: Surroundings) -> Iterator[Finding]:
    """KB111: `missed: all` without a maximum age, of a schedule that fires often."""
    start = surroundings.start
    for each in surroundings.schedules:
        definition = each.definition
        if definition.missed != "all" or definition.max_age_s is not None:
            continue
        count = sum(1 for _ in occurrences(definition.when, start, start + DAY_S))
        if count > _MANY:
            texts = (
                f"{definition.expression} catches up all missed ticks, however old",
                f"after a day without a clock {count:,} jobs are enqueued at once",
                "say max_age_s, or missed: last",
            )
            yield found("KB111", "warning", each, texts)


def _duplicate(
    schedule: SourcedSchedule, others: Sequence[tuple[SourcedSchedule, set[int], bool]]
) -> Finding:
    details = []
    for other, common, is_same in others[:_MOST]:
        times = "always" if is_same else f"{len(common):,} of its times in {_DAYS} days"
        at = datetime.fromtimestamp(min(common), UTC)
        details.append(f"{other.name} ({other.place}): {times}, next {at:%Y-%m-%d %H:%M} UTC")
    if len(others) > _MOST:
        details.append(f"and {len(others) - _MOST:,} more")
    number = "another schedule" if len(others) == 1 else f"{len(others):,} other schedules"
    texts = (
        f"it enqueues the same {schedule.classes} as {number}, at the same time",
        "the job runs once for each of them, since each has a ledger of its own",
        "remove all but one, or change arguments or times",
    )
    return found("KB110", "warning", schedule, texts, details)


def _jobs_key(schedule: SourcedSchedule) -> str:
    """The same for the same classes, queues and arguments."""
    return json.dumps(
        [
            (job.get("class", job.get("active_job")), job.get("queue", "default"), job.get("args"))
            for job in schedule.definition.jobs
        ],
        sort_keys=True,
        default=str,
    )


def _interval_s(schedule: SourcedSchedule, start: int) -> int | None:
    """Seconds between two firings, the least within two days, or between the next two; None = one is left."""
    instants = list(occurrences(schedule.definition.when, start, start + 2 * DAY_S))
    if len(instants) > 1:
        return min(later - each for each, later in itertools.pairwise(instants))
    first = schedule.definition.when.next_after(datetime.fromtimestamp(start - 1, UTC))
    second = first and schedule.definition.when.next_after(first)
    return int((second - first).total_seconds()) if first and second else None
