"""A second opinion on schedule expressions, slow and plain, that shares nothing with the evaluator.

It walks the minutes of UTC one by one, looks at what a clock on the wall of the zone shows, and
reads the expression's text again to decide whether that minute is meant. A time which the clocks
skip is never shown; of a time which they show twice the walk remembers the first. The one shortcut:
a quarter of an hour is passed over at once when its date or hour cannot match, because all the
zones used here change their clocks on quarters of an hour.
"""

from datetime import UTC, date, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
# Long enough to have seen the first of every repeated time before the window begins.
RUN_UP = timedelta(hours=3)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def due_minutes(text, zone, start, end):
    """All t with start < t <= end that `cron(...)` or `at(...)` names, ascending, in UTC."""
    inner = text[text.index("(") + 1 : text.index(")")]
    if text.startswith("at"):
        due = walk(zone, start, end, lambda _: True, lambda wall: wall.isoformat() == inner)
    else:
        minute, hour, *day_fields = inner.split()

        def hour_matches(wall):
            return day_matches(tuple(day_fields), wall.date()) and allows(hour, wall.hour, 0, 23)

        due = walk(zone, start, end, hour_matches, lambda wall: allows(minute, wall.minute, 0, 59))
    return due


def walk(zone, start, end, hour_matches, minute_matches):
    zone, seen, due = ZoneInfo(zone), set(), []
    quarter = (start - RUN_UP).replace(minute=0, second=0, microsecond=0)
    while quarter <= end:
        if hour_matches(quarter.astimezone(zone).replace(tzinfo=None)):
            for minute in range(15):
                now = quarter + minute * MINUTE
                wall = now.astimezone(zone).replace(tzinfo=None, fold=0)
                if minute_matches(wall) and wall not in seen:
                    seen.add(wall)
                    if start < now <= end:
                        due.append(now.astimezone(UTC))
        quarter += 15 * MINUTE
    return due


@cache
def day_matches(day_fields, day):
    day_of_month, month, day_of_week, year = day_fields
    return (
        allows(year, day.year, 1970, 2199)
        and allows(month, day.month, 1, 12, MONTHS)
        and any(day_of_month_matches(item, day) for item in day_of_month.split(","))
        and any(day_of_week_matches(item, day) for item in day_of_week.split(","))
    )


def day_of_month_matches(item, day):
    item = item.upper()
    if item == "?":
        return True
    if item == "L":
        return day == days_of_its_month(day)[-1]
    workdays = [other for other in days_of_its_month(day) if other.isoweekday() <= 5]
    if item == "LW":
        return day == workdays[-1]
    if item.endswith("W"):
        wanted = [other for other in days_of_its_month(day) if other.day == int(item[:-1])]
        return wanted != [] and day == min(workdays, key=lambda other: abs(other - wanted[0]))
    return allows(item, day.day, 1, 31)


def day_of_week_matches(item, day):
    item, weekday = item.upper(), day.isoweekday() % 7 + 1
    same_weekdays = [d for d in days_of_its_month(day) if d.isoweekday() == day.isoweekday()]
    if item == "?":
        return True
    if item == "L":
        return weekday == 7
    if item.endswith("L"):
        return allows(item[:-1], weekday, 1, 7, WEEKDAYS) and day == same_weekdays[-1]
    if "#" in item:
        name, nth = item.split("#")
        of_weekday = allows(name, weekday, 1, 7, WEEKDAYS)
        return of_weekday and same_weekdays.index(day) == int(nth) - 1
    return allows(item, weekday, 1, 7, WEEKDAYS)


@cache
def days_of_its_month(day):
    days = [date(day.year, day.month, 1) + timedelta(days=n) for n in range(31)]
    return [other for other in days if other.month == day.month]


@cache
def allows(text, value, low, high, names=()):
    return any(item_allows(item.upper(), value, low, high, names) for item in text.split(","))


def item_allows(item, value, low, high, names):
    """Count up from the item's first value, wrapping at the top, and see whether we meet `value`."""
    whole, _, step = item.partition("/")
    if whole == "*":
        first, last = low, high
    elif "-" in whole:
        first, last = (number(part, low, names) for part in whole.split("-"))
    else:
        first = number(whole, low, names)
        last = high if step else first
    counted, met = 0, first
    while True:
        if met == value and counted % int(step or 1) == 0:
            return True
        if met == last:
            return False
        counted, met = counted + 1, low if met == high else met + 1


def number(part, low, names):
    return low + names.index(part) if part in names else int(part)
