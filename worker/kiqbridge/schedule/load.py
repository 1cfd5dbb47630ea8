"""What a simulation adds up to: how often each schedule fires, and how many at the same minute."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from kiqbridge.schedule.simulation import DAY_S, Firing, Offsets

MINUTES: Final = 1440


class Load:
    """Sums over the days of a simulation.

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
        self._zones = Offsets()

    def add(self, day: Sequence[Firing]) -> None:
        """Count the firings of a day, in order."""
        if not day:
            return
        self.total += len(day)
        self.counts.update(map(itemgetter(1), day))
        self.first = {index: at for at, index in reversed(day)} | self.first
        self.last |= {index: at for at, index in day}
        for minute, count in Counter([at // 60 for at, _ in day]).items():
            local = minute * 60 + self._zones.at(self.timezone, minute * 60)
            self.by_minute[local % DAY_S // 60] += count
            if count > self.busiest:
                self.busiest, self.busiest_at, self.busiest_minutes = count, minute * 60, 1
            elif count == self.busiest:
                self.busiest_minutes += 1

    def by_hour(self) -> list[int]:
        """Firings in each hour of the day."""
        return [sum(self.by_minute[hour * 60 : hour * 60 + 60]) for hour in range(24)]
