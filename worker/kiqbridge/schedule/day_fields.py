"""The two day fields of a crontab line, and the days of a month that they name together."""

from collections.abc import Sequence
from typing import Final, Literal

from kiqbridge.records import dataclass
from kiqbridge.schedule.cron_fields import days_falling_on

EVERY_DATE: Final = tuple(range(1, 32))
EVERY_WEEKDAY: Final = tuple(range(1, 8))

Joined = Literal["both", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFields:
    """Day-of-month and day-of-week: a `DayRule` (cron_fields.py) that can also be written in another dialect.

    Attributes:
        dates: days of the month.
        from_end: days counted from its end; 1 is the last one.
        weekdays: 1-7 = SUN-SAT, as EventBridge counts them.
        nth: (weekday, n): its n-th one in the month; below zero counted from the end.
        joined: whether a day must be in both fields, or in either.
    """

    dates: tuple[int, ...] = EVERY_DATE
    from_end: tuple[int, ...] = ()
    weekdays: tuple[int, ...] = EVERY_WEEKDAY
    nth: tuple[tuple[int, int], ...] = ()
    joined: Joined = "both"

    def __call__(self, month: Sequence[int]) -> Sequence[int]:
        """The days that are due of a month, given as the weekdays of its days."""
        by_date, by_weekday = self.by_date(month), self.by_weekday(month)
        is_both = self.joined == "both"
        return sorted(by_date & by_weekday if is_both else by_date | by_weekday)

    def by_date(self, month: Sequence[int]) -> set[int]:
        """The days that the day-of-month field names."""
        length = len(month)
        counted = {length + 1 - day for day in self.from_end}
        return (set(self.dates) | counted) & set(range(1, length + 1))

    def by_weekday(self, month: Sequence[int]) -> set[int]:
        """The days that the day-of-week field names."""
        found = set(days_falling_on(self.weekdays, month))
        for weekday, number in self.nth:
            days = days_falling_on((weekday,), month)
            place = number - 1 if number > 0 else number
            if -len(days) <= place < len(days):
                found.add(days[place])
        return found
