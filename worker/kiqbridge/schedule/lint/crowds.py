"""Minutes at which many schedules fire, and how to spread them (KB106)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from kiqbridge.schedule.cron import ON_THE_MINUTE, Cron
from kiqbridge.schedule.crontab import MACROS
from kiqbridge.schedule.lint.finding import Finding, Surroundings, found
from kiqbridge.schedule.simulation import DAY_S, simulate
from kiqbridge.schedule.sourced import SourcedSchedule

_DAYS: Final = 35
"""A month and a little: who meets on the first of a month is seen."""
_HOUR: Final = 60


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
        shift = _minute_of(each) - minute % _HOUR
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


def _minute_of(schedule: SourcedSchedule) -> int:
    when = schedule.definition.when
    return when.fields.minutes[0] if isinstance(when, Cron) else 0
