"""When schedules are due, found by brute force: day by day, and each time of day of the wall clock.

It shares nothing with the evaluator: it reads the text again (unit/cron_oracle.py), and turns to UTC by trying
each offset that the zone has around a day. A wall-clock time that no instant shows is skipped; of two instants
that show it, the first counts.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from kernel.unit.cron_oracle import MONTHS, WEEKDAYS, allows, day_matches, days_of_its_month

DAY = timedelta(days=1)


def due_by_brute_force(
    is_due_on: Callable[[date], bool],
    times: Sequence[time],
    zone: str,
    start: datetime,
    end: datetime,
) -> Iterator[datetime]:
    """All t with start < t <= end, ascending."""
    place, day = ZoneInfo(zone), start.date() - 2 * DAY
    found = set()
    while day <= end.date() + 2 * DAY:
        if is_due_on(day):
            offsets = _offsets(place, day)
            for moment in times:
                wall = datetime.combine(day, moment)
                shown = [
                    at for at in (wall - offset for offset in offsets) if _shows(place, at, wall)
                ]
                if shown:
                    found.add(min(shown).replace(tzinfo=UTC))
        day += DAY
    return iter(sorted(at for at in found if start < at <= end))


def eventbridge_days(text: str) -> tuple[Callable[[date], bool], list[time]]:
    """The days and the times of day that `cron(…)` names."""
    minute, hour, *days = text.removeprefix("cron(").removesuffix(")").split()
    return lambda day: day_matches(tuple(days), day), _times(minute, hour)


def line_days(line: str) -> tuple[Callable[[date], bool], list[time]]:
    """The days and the times of day that five fields of a cron line name, as crontab(5) says."""
    minute, hour, day_of_month, month, day_of_week = line.upper().split()
    is_both = day_of_month.startswith("*") or day_of_week.startswith("*")

    def is_due_on(day: date) -> bool:
        by_date = any(_date_matches(item, day) for item in day_of_month.split(","))
        by_weekday = any(_weekday_matches(item, day) for item in day_of_week.split(","))
        matches = by_date and by_weekday if is_both else by_date or by_weekday
        return matches and allows(month, day.month, 1, 12, MONTHS)

    return is_due_on, _times(minute, hour)


def _times(minute: str, hour: str) -> list[time]:
    every = (time(hours, minutes) for hours in range(24) for minutes in range(60))
    return [at for at in every if allows(hour, at.hour, 0, 23) and allows(minute, at.minute, 0, 59)]


def _date_matches(item: str, day: date) -> bool:
    days = days_of_its_month(day)
    if item == "L":
        return day == days[-1]
    if item.startswith("-"):
        return int(item[1:]) <= len(days) and day == days[-int(item[1:])]
    return allows(item, day.day, 1, 31)


def _weekday_matches(item: str, day: date) -> bool:
    weekday = day.isoweekday()
    if "#" not in item:
        return any(
            allows(item, each, 0, 7, WEEKDAYS) for each in ({0, 7} if weekday == 7 else {weekday})
        )
    name, number = item.split("#")
    same = [other for other in days_of_its_month(day) if other.isoweekday() == weekday]
    place = -1 if number == "L" else int(number) - 1 if int(number) > 0 else int(number)
    inside = -len(same) <= place < len(same)
    return _weekday_matches(name, day) and inside and day == same[place]


@cache
def _offsets(place: ZoneInfo, day: date) -> frozenset[timedelta]:
    midnight = datetime.combine(day, time(), UTC)
    instants = [midnight + hours * timedelta(hours=1) for hours in (-24, -12, 0, 12, 24, 36, 48)]
    return frozenset(at.astimezone(place).utcoffset() or timedelta(0) for at in instants)


def _shows(place: ZoneInfo, at: datetime, wall: datetime) -> bool:
    return at.replace(tzinfo=UTC).astimezone(place).replace(tzinfo=None) == wall


def random_eventbridge(rng: random.Random) -> str:
    """An EventBridge cron expression with any of its features, due some times a day at most."""
    days = rng.choice(
        (
            lambda: ("*", "?"),
            lambda: ("?", "*"),
            lambda: (_days_of_month(rng), "?"),
            lambda: ("?", _days_of_week(rng)),
        )
    )()
    month = "*" if rng.random() < 0.6 else _field(rng, 1, 12, MONTHS)
    year = "*" if rng.random() < 0.8 else rng.choice(("2024-2030", "1990/3", "2026,2028", "2011"))
    return f"cron({_few(rng, 0, 59)} {_few(rng, 0, 23)} {days[0]} {month} {days[1]} {year})"


def random_line(rng: random.Random) -> str:
    """Five fields as cron and sidekiq-cron have them, due some times a day at most."""
    dates = rng.choice(
        ("*", "*", f"*/{rng.randint(2, 20)}", "L", "-2", "15,L", "1-7", _field(rng, 1, 31))
    )
    weekdays = rng.choice(
        (
            "*",
            "*",
            "MON-FRI",
            "5-7",
            "*/3",
            "MON#2",
            "5#-1,0",
            "SAT#L",
            _unstepped(_field(rng, 0, 6, WEEKDAYS)),
        )
    )
    month = "*" if rng.random() < 0.6 else _field(rng, 1, 12, MONTHS)
    fields = (_few(rng, 0, 59), _few(rng, 0, 23), dates, month, weekdays)
    return " ".join(_without_lone_step(field) for field in fields)


def random_crontab_line(rng: random.Random) -> str:
    """Five fields with what crontab(5) has alone: no days from the end, no n-th weekdays, no wrapping around."""
    while True:
        line = random_line(rng)
        day_of_month, _, day_of_week = line.split()[2:]
        wraps = any(_runs_backwards(item) for field in line.split() for item in field.split(","))
        if not wraps and not re.search(r"L|(^|,)-", day_of_month) and "#" not in day_of_week:
            return line


def _runs_backwards(item: str) -> bool:
    first, dash, last = item.partition("/")[0].upper().partition("-")
    names = {name: place for names in (MONTHS, WEEKDAYS) for place, name in enumerate(names)}
    ends = [names.get(end, int(end) if end.isdecimal() else 0) for end in (first, last)]
    # `FRI-SUN` ends with the Sunday after it.
    return bool(dash) and ends[0] > (7 if last == "SUN" else ends[1])


def _without_lone_step(field: str) -> str:
    # A step after one number, or after weekdays that wrap around, has no meaning that all crons share.
    return ",".join(
        item.partition("/")[0] if item[0].isalnum() and "-" not in item else item
        for item in field.split(",")
    )


def _unstepped(field: str) -> str:
    return ",".join(item.partition("/")[0] for item in field.split(","))


def _few(rng: random.Random, low: int, high: int) -> str:
    """One to three times of day, the hours around midnight and around changes of clocks preferred."""
    if rng.random() < 0.15:
        return f"{rng.randint(low, high)}/{rng.randint((high + 1) // 3, high)}"
    values = [
        rng.choice((0, 1, 2, 3, high, rng.randint(low, high))) for _ in range(rng.randint(1, 3))
    ]
    return ",".join(rng.choice((str(value), f"{value:02}")) for value in values)


def _field(rng: random.Random, low: int, high: int, names: Sequence[str] = ()) -> str:
    """A list of values, ranges (some wrap around) and steps."""
    items = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        first, last = rng.randint(low, high), rng.randint(low, high)
        step = rng.randint(1, high - low)
        choices = [f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", f"{first}/{step}"]
        if names:
            choices += [rng.choice(names), f"{rng.choice(names)}-{rng.choice(names)}"]
        items.append(rng.choice(choices))
    return ",".join(items)


def _days_of_month(rng: random.Random) -> str:
    special = rng.choice(("L", "LW", "1W", "15W", "31W", "l", f"{rng.randint(1, 31)}W"))
    return rng.choice((special, f"{special},{rng.randint(1, 31)}", _field(rng, 1, 31)))


def _days_of_week(rng: random.Random) -> str:
    weekday = rng.choice((*WEEKDAYS, "1", "7", "mon"))
    return rng.choice(
        ("L", f"{weekday}L", f"{weekday}#{rng.randint(1, 5)}", _field(rng, 1, 7, WEEKDAYS))
    )
