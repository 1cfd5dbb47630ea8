"""A virtual clock: all that some schedules fire within a window, in order, many years in seconds.

A window is walked day by day (UTC). On a day in which no clock of a schedule's zone turns, nor on the day
before it, its firings are the minutes of its expression at a fixed offset, a list of numbers. The other days,
two or four a year, are computed by the expression itself. The days' lists are merged and sorted.
"""

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import Final
from zoneinfo import ZoneInfo

from kiqbridge.schedule.cron import Cron, ScheduleExpression
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState

DAY_S: Final = 86_400
MINUTES: Final = 1440
_PROBE_S: Final = 6 * 3600
"""No zone has turned its clock twice within so short a time since 1970."""
_INSTANT: Final = timedelta(microseconds=1)
_NO_STATE: Final = ScheduleState()
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

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
    readers = [
        (index, _reader(each.when), each) for index, each in enumerate(definitions) if each.enabled
    ]
    count = max(len(definitions), 1)
    waiting: list[int] = []  # instant * count + index: one number sorts faster than two
    for low in range(start - start % DAY_S, end, DAY_S):
        window = max(low, start), min(low + DAY_S, end)
        for index, read, definition in readers:
            instants = read(*window)
            if states and states[index] != _NO_STATE:
                instants = [each for each in instants if not is_held(states[index], each)]
            if definition.jitter_s:
                instants = [each + definition.put_off_s(each) for each in instants]
            waiting.extend([each * count + index for each in instants])
        waiting.sort()
        cut = bisect_left(waiting, (low + DAY_S) * count)
        yield [divmod(each, count) for each in waiting[:cut]]
        del waiting[:cut]
    if waiting:
        yield [divmod(each, count) for each in waiting]


def is_held(state: ScheduleState, instant: int) -> bool:
    """Whether an occurrence (epoch seconds) is paused, or to be skipped."""
    pause = state.paused
    is_paused = pause is not None and (pause.until is None or instant < pause.until)
    return is_paused or instant in state.skipped


def occurrences(when: ScheduleExpression, start: int, end: int) -> Iterator[int]:
    """The occurrences of one expression with start <= instant < end, in epoch seconds, ascending."""
    read = _reader(when)
    for low in range(start - start % DAY_S, end, DAY_S):
        yield from read(max(low, start), min(low + DAY_S, end))


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
    steady = _steady_s(zone, instant // DAY_S)
    return _asked_s(zone, instant) if steady is None else steady


@functools.lru_cache(maxsize=1 << 16)
def _steady_s(zone: str, day: int) -> int | None:
    """The offset of a zone on a day (days since 1970, in UTC) and on the day before; None if it is not the same."""
    probes = range((day - 1) * DAY_S, (day + 1) * DAY_S + 1, _PROBE_S)
    found = {_asked_s(zone, each) for each in probes}
    return found.pop() if len(found) == 1 else None


def _asked_s(zone: str, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, ZoneInfo(zone)).utcoffset() or timedelta()
    return int(offset.total_seconds())


_Read = Callable[[int, int], list[int]]


def _reader(when: ScheduleExpression) -> _Read:
    """A function of start and end, within one day of UTC, that returns what is due between them."""
    start, plain = when.bounds.start, _plain_reader(when)
    if not isinstance(when, Cron) or (start is not None and start.microsecond):
        return plain
    last = int(when.bounds.last.timestamp())
    fields, zone = when.fields, when.timezone
    seconds = [
        hour * 3600 + minute * 60 + second
        for hour in fields.hours
        for minute in fields.minutes
        for second in when.seconds
    ]

    def read(low: int, high: int) -> list[int]:
        offset = _steady_s(zone, low // DAY_S)
        if offset is None:
            return plain(low, high)
        low = low if start is None else max(low, int(start.timestamp()))
        high = min(high, last + 1)
        found: list[int] = []
        # A day of UTC is part of two days of the zone's calendar.
        for day in range((low + offset) // DAY_S, (high - 1 + offset) // DAY_S + 1):
            local = date.fromordinal(_EPOCH_ORDINAL + day)
            if fields.is_due_on(local.year, local.month, local.day):
                base = day * DAY_S - offset
                part = seconds[bisect_left(seconds, low - base) : bisect_left(seconds, high - base)]
                found.extend([base + each for each in part])
        return found

    return read


def _plain_reader(when: ScheduleExpression) -> _Read:
    def read(low: int, high: int) -> list[int]:
        before, last = (datetime.fromtimestamp(each, UTC) - _INSTANT for each in (low, high))
        return [int(each.timestamp()) for each in when.between(before, last)]

    return read
