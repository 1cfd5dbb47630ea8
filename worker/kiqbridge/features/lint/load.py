"""Schedules that load the fleet: crowds at one minute, jobs that meet themselves (KB106, KB109 to KB111)."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from kiqbridge.features.lint.finding import Finding, Surroundings, found
from kiqbridge.features.lint.simulation import DAY_S, occurrences, simulate
from kiqbridge.schedule.cron import ON_THE_MINUTE, Cron
from kiqbridge.schedule.crontab import MACROS
from kiqbridge.schedule.sourced import SourcedSchedule

_DAYS: Final = 35
"""A month and a little: who meets on the first of a month is seen."""

_HOUR: Final = 60
_MANY: Final = 48
"""More than two an hour: after a day of absence they are a burst."""

_SHARE: Final = 0.95
_MOST: Final = 10
"""So many others are named."""


def crowds(surroundings: Surroundings) -> Iterator[Finding]:
    """KB106: the largest crowd first; each schedule is spread once, and who stays is left out of the rest.

    Only those count that fire at one minute of the hour: the others cannot be moved.
    """
    everyone = [each.definition for each in surroundings.schedules]
    movable = {
        index
        for index, each in enumerate(surroundings.schedules)
        if _is_movable(each) and "KB106" not in each.ignored
    }
    start = surroundings.start
    minutes: dict[int, set[int]] = {}
    for day in simulate(everyone, start, start + _DAYS * DAY_S):
        for at, index in day:
            minutes.setdefault(at // 60, set()).add(index)
    meetings = {minute: there & movable for minute, there in minutes.items()}
    while True:
        meetings = {
            minute: there for minute, there in meetings.items() if len(there) >= surroundings.crowd
        }
        if not meetings:
            return
        # The earliest of the largest ones, so that the same schedules lead to the same answer.
        minute = max(meetings, key=lambda each: (len(meetings[each]), -each))
        crowd = meetings[minute]
        yield _finding(surroundings, minute, sorted(crowd), minutes)
        meetings = {minute: there - crowd for minute, there in meetings.items()}


def spread(count: int, minute: int, load: Mapping[int, int]) -> list[int]:
    """New minutes of the hour for `count` schedules that fire at `minute`, where little else fires.

    Args:
        count: how many; the first one keeps its minute.
        minute: where they are now.
        load: minute of the hour → how many others fire there.

    Returns:
        As many minutes, the first is `minute`; all of them later in the same hour while there is room.
    """
    room = range(minute, _HOUR)
    if len(room) < 2 * count:
        room = range(_HOUR)
    taken = Counter({each: load.get(each, 0) for each in range(_HOUR)})
    taken[minute] += 1
    chosen = []
    for number in range(1, count):
        # Evenly, or as near to it as a minute with least beside it is.
        even = (minute - room[0] + number * len(room) / count) % len(room) + room[0]
        best = min(room, key=lambda each: (taken[each], abs(each - even), each))
        chosen.append(best)
        taken[best] += 1
    return [minute, *sorted(chosen)]


def moved(expression: str, minute: int) -> str:
    """An expression with another minute of the hour."""
    text = expression.strip()
    if text.startswith("cron("):
        fields = text.removeprefix("cron(").split(None, 1)
        return f"cron({minute} {fields[1]}"
    words = text.split()
    head = [words.pop(0)] if words[0].startswith("CRON_TZ=") else []
    if words[0] in MACROS:
        words[:1] = MACROS[words[0]].split()
    return " ".join([*head, str(minute), *words[1:]])


def _is_movable(schedule: SourcedSchedule) -> bool:
    when, definition = schedule.definition.when, schedule.definition
    if not isinstance(when, Cron) or when.seconds != ON_THE_MINUTE or definition.jitter_s:
        return False
    if len(when.fields.minutes) != 1:
        return False
    text = definition.expression.strip()
    if not text.startswith("cron("):
        words = [word for word in text.split() if not word.startswith("CRON_TZ=")]
        if words[0] not in MACROS and not words[0].isdecimal():
            return False  # a form whose minute is not its first word
    return True


def _finding(
    surroundings: Surroundings, minute: int, crowd: Sequence[int], minutes: Mapping[int, set[int]]
) -> Finding:
    schedules = [surroundings.schedules[index] for index in crowd]
    hour = minute // _HOUR * _HOUR
    members = set(crowd)
    load = {each: len(minutes.get(hour + each, set()) - members) for each in range(_HOUR)}
    places = spread(len(crowd), minute % _HOUR, load)
    at = datetime.fromtimestamp(minute * 60, UTC)
    details = [f"{schedules[0].name}  stays at {schedules[0].definition.expression}"]
    for each, place in zip(schedules[1:], places[1:], strict=True):
        # The minute of the hour on its own clock: zones may differ by half an hour.
        when = each.definition.when
        shift = (when.fields.minutes[0] if isinstance(when, Cron) else 0) - minute % _HOUR
        new = moved(each.definition.expression, (place + shift) % _HOUR)
        details.append(f"{each.name}  {each.definition.expression} -> {new}")
    everyone = len(minutes[minute])
    total = f" of the {everyone} schedules" if everyone > len(crowd) else " schedules"
    texts = (
        f"{len(crowd)}{total} that fire at {at:%Y-%m-%d %H:%M} UTC could fire at another minute",
        "their jobs wait for each other, and for the same database",
        "spread them over the hour; a dynamic schedule can have jitter_s instead",
    )
    return found("KB106", "warning", schedules[0], texts, details)


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
    coming = schedule.definition.when.after(datetime.fromtimestamp(start - 1, UTC))
    pairs = itertools.pairwise(coming)
    return next((int((later - each).total_seconds()) for each, later in pairs), None)
