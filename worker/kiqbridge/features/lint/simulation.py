"""A virtual clock: all that some schedules fire within a window, in order, day by day (UTC)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import ScheduleExpression
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState

DAY_S: Final = 86_400
MINUTES: Final = 1440

Firing = tuple[int, int]
"""Epoch seconds, and the index of the schedule."""


def simulate(
    definitions: Sequence[ScheduleDefinition],
    start: int,
    end: int,
    states: Sequence[ScheduleState] = (),
) -> Iterator[list[Firing]]:
    """All firings of the enabled schedules with start <= instant < end, ordered, a list for each day.

    An occurrence that a schedule's jitter puts off is where it is put off to.

    Args:
        definitions: the schedules; a firing names them by their index.
        start, end: epoch seconds; they bound the occurrences, from which jitter counts.
        states: of the schedules, in their order; what is paused or skipped does not fire. None = no state.

    Raises:
        ExpressionError: an expression cannot be read.
    """
    coming = {
        index: occurrences(each.when, start, end)
        for index, each in enumerate(definitions)
        if each.enabled
    }
    following = {index: next(instants, end) for index, instants in coming.items()}
    count = max(len(definitions), 1)
    waiting: list[int] = []  # instant * count + index: one number sorts faster than two
    for low in range(start - start % DAY_S, end, DAY_S):
        for index, instants in coming.items():
            definition, instant = definitions[index], following[index]
            state = states[index] if states else ScheduleState()
            while instant < min(low + DAY_S, end):
                if state.pause_at(instant) is None and instant not in state.skipped:
                    waiting.append((instant + definition.put_off_s(instant)) * count + index)
                instant = next(instants, end)
            following[index] = instant
        waiting.sort()
        cut = bisect_left(waiting, (low + DAY_S) * count)
        yield [divmod(each, count) for each in waiting[:cut]]
        del waiting[:cut]
    if waiting:
        yield [divmod(each, count) for each in waiting]


def occurrences(when: ScheduleExpression, start: int, end: int) -> Iterator[int]:
    """The occurrences of one expression with start <= instant < end, in epoch seconds, ascending."""
    instant = timedelta.resolution
    before, last = (datetime.fromtimestamp(each, UTC) - instant for each in (start, end))
    return (int(each.timestamp()) for each in when.between(before, last))


class Load:
    """What a simulation adds up to: how often each schedule fires, and how many at the same minute.

    Args:
        timezone: of the hours and minutes of `by_minute`.

    Attributes:
        total: firings.
        counts: index of a schedule → firings.
        first, last: index of a schedule → epoch seconds.
        by_minute: firings at each minute of the day, on the wall clock of the zone; 1,440 of them.
        busiest: the most firings within one minute.
        busiest_at: epoch seconds of the first such minute; None = nothing fires.
        busiest_minutes: how many minutes are as busy.
    """

    def __init__(self, timezone: str = "UTC") -> None:
        self.timezone = timezone
        self.total = 0
        self.counts: Counter[int] = Counter()
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.by_minute = [0] * MINUTES
        self.busiest = 0
        self.busiest_at: int | None = None
        self.busiest_minutes = 0

    def add(self, day: Sequence[Firing]) -> None:
        """Count the firings of a day, in order."""
        if not day:
            return
        self.total += len(day)
        self.counts.update(map(itemgetter(1), day))
        self.first = {index: at for at, index in reversed(day)} | self.first
        self.last |= {index: at for at, index in day}
        for minute, count in Counter([at // 60 for at, _ in day]).items():
            local = minute * 60 + offset_s(self.timezone, minute * 60)
            self.by_minute[local % DAY_S // 60] += count
            if count > self.busiest:
                self.busiest, self.busiest_at, self.busiest_minutes = count, minute * 60, 1
            elif count == self.busiest:
                self.busiest_minutes += 1

    def by_hour(self) -> list[int]:
        """Firings in each hour of the day."""
        return [sum(self.by_minute[hour * 60 : hour * 60 + 60]) for hour in range(24)]


def offset_s(zone: str, instant: int) -> int:
    """Seconds of a zone's offset from UTC at an instant (epoch seconds)."""
    offset = datetime.fromtimestamp(instant, ZoneInfo(zone)).utcoffset() or timedelta()
    return int(offset.total_seconds())
