"""Lines of a crontab, and what sidekiq-cron (fugit) reads beyond them: croniter gives the values of a field.

Read by crontab(5), in the wall time of a zone, which the line may name: `CRON_TZ=ZONE` in front, or the zone behind.

1. With both day fields restricted, a day matches that either of them names; but a day field that begins with `*`
   leaves the choice to the other one, so then both must match.
2. What the clocks skip or repeat goes by Scheduler's rule (cron.py), not by cron's own, since that is what will fire.
3. A step after one number is refused: croniter reads `5/10` as `5-59/10`, crontab(5) has it after ranges and `*` alone.

`parse_crontab` reads a line strictly, with its command, which is not looked at. `parse_cron_line` reads besides:

4. A field of seconds in front (`*/10 * * * * *`), and ranges that wrap around (`22-2`, `fri-mon`).
5. Day of month: `L` or `last`, and days counted from the end (`-2`, `-7-L`). Day of week: `mon#2`, `fri#-1`, `fri#L`.
   A `&` after a day field asks for both day fields (`0 5 1-7 * 1&`, fugit 1.7).

What sidekiq-cron reads otherwise than cron is in sidekiq_cron.py.
"""

import functools
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule import cron_fields
from kiqbridge.schedule.cron import Bounds, Cron, bounds_of, check_zone

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@noon": "0 12 * * *",
}
"""All but the last one are cron's."""

EVERY_DATE: Final = tuple(range(1, 32))
EVERY_WEEKDAY: Final = tuple(range(1, 8))

Joined = Literal["both", "either"]

# By croniter's places: name, least, greatest, names, what sidekiq-cron adds.
_ROWS: Final = (
    ("minute", 0, 59, "", ""),
    ("hour", 0, 23, "", ""),
    ("day of month", 1, 31, "", ", L, -2 from the end"),
    ("month", 1, 12, " or JAN-DEC", ""),
    ("day of week", 0, 7, " or SUN-SAT", ", MON#2, FRI#L"),
    ("second", 0, 59, "", ""),
)
_MINUTE, _HOUR, _DATE, _MONTH, _WEEKDAY, _SECOND = range(len(_ROWS))
_CRON, _SIDEKIQ_CRON = (
    tuple(
        cron_fields.FieldSpec(
            name=name,
            low=low,
            high=high,
            also=names + (added if wraps else ""),
            forms="ranges a-b, steps */n or a-b/n, lists a,b of them, and *",
            wraps=wraps,
        )
        for name, low, high, names, added in _ROWS
    )
    for wraps in (False, True)
)
_PLACES: Final = {row[0]: place for place, row in enumerate(_ROWS)}
_FIELDS: Final = 5
_YEARS: Final = tuple(range(cron_fields.FIRST_YEAR, cron_fields.LAST_YEAR + 1))
# croniter alone would also take ?, H, R (a minute at random), W and names such as L5.
_ITEM: Final = re.compile(
    r"(?P<first>\*|[0-9]{1,9}|[A-Z]{3})(-(?P<last>[0-9]{1,9}|[A-Z]{3}))?(/(?P<step>[0-9]{1,9}))?"
)
_COMMAND: Final = re.compile(
    r"(?P<schedule>\s*((CRON_)?TZ=\S*\s+)?+(@\S+|\S+(\s+\S+){4}))\s+(?P<command>\S.*)", re.DOTALL
)
_CRON_FIELD: Final = re.compile(r"[0-9*?,/LW#-]+(\s.*)?", re.DOTALL)
_ZONE: Final = re.compile(r"([A-Z][A-Za-z_]+(/[A-Z][A-Za-z0-9_+-]+)+|UTC|GMT)\s*")
_OFFSET: Final = re.compile(r"[+-][0-9]{1,2}:?[0-9]{2}")

Word = tuple[str, int]
"""A field, and where it begins in the line, counted from 1."""


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
        found = set(cron_fields.days_falling_on(self.weekdays, month))
        for weekday, number in self.nth:
            days = cron_fields.days_falling_on((weekday,), month)
            place = number - 1 if number > 0 else number
            if -len(days) <= place < len(days):
                found.add(days[place])
        return found


def parse_crontab(
    line: str, timezone: str = "UTC", *, start: datetime | None = None, end: datetime | None = None
) -> Cron:
    """Read a line of a crontab.

    Args:
        line: `0 3 * * 1-5`, `@daily`, `CRON_TZ=Europe/Paris 0 3 * * *`, `0 3 * * * Europe/Paris`, or one
            of these with a command after it.
        timezone: of a line that names none.
        start: aware; what is due before it is not counted. `end` likewise; both are included.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    try:
        context = timezone, bounds_of(start, end)
        return _parse(_without_command(line), line, context, _CRON)
    except cron_fields.ExpressionError as error:
        raise cron_fields.ExpressionError(f"crontab line {line!r}: {error}") from None


def parse_cron_line(line: str, timezone: str, bounds: Bounds) -> Cron:
    """Read five fields, six with seconds in front, or a macro.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    return _parse(line, line, (timezone, bounds), _SIDEKIQ_CRON)


def _without_command(line: str) -> str:
    if len(lines := line.strip().splitlines()) > 1:
        raise cron_fields.ExpressionError(
            f"has {len(lines)} lines; give one of them, or read a file with kiqbridge schedule import"
        )
    found = _COMMAND.fullmatch(line)
    if found is None or _ZONE.fullmatch(found["command"]):
        return line
    if _CRON_FIELD.fullmatch(found["command"]):
        raise cron_fields.ExpressionError(
            "has more than 5 fields: seconds and years are not crontab's; write minute hour day-of-month month"
            " day-of-week"
        )
    return found["schedule"]


def split_line(line: str, timezone: str) -> tuple[list[Word], str]:
    """The five or six fields of a line, and the zone that it names, else `timezone`.

    Raises:
        ExpressionError: it has more or fewer.
    """
    words = [(word[0], word.start() + 1) for word in re.finditer(r"\S+", line)]
    if words and words[0][0].startswith("TZ="):
        raise cron_fields.ExpressionError(
            "TZ=: sets the zone of the command, not of the schedule; write CRON_TZ= if the schedule is meant"
        )
    if words and words[0][0].startswith("CRON_TZ="):
        timezone = words.pop(0)[0].partition("=")[2]
    if words and words[0][0].startswith("@"):
        words[:1] = [(field, words[0][1]) for field in _expanded(words[0][0]).split()]
    if len(words) > _FIELDS and _is_zone(words[-1][0]):
        timezone = words.pop()[0]
    for text, place in words:
        if text == "?":
            raise cron_fields.ExpressionError(
                f"'?' (at character {place}) is EventBridge's; write * here, or EventBridge's six fields as cron(…)"
            )
        if _OFFSET.fullmatch(text):
            raise cron_fields.ExpressionError(
                f"{text!r} (at character {place}) is an offset; write the name of a time zone, such as Etc/GMT-2"
                " for +02:00"
            )
    if len(words) not in (_FIELDS, _FIELDS + 1):
        raise cron_fields.ExpressionError(
            f"has {len(words)} fields; write 5: minute hour day-of-month month day-of-week, such as 0 3 * * *"
            " for three each night, with seconds in front or a time zone behind if they are needed"
        )
    return words, timezone


def _expanded(macro: str) -> str:
    if macro.lower() in MACROS:
        return MACROS[macro.lower()]
    if macro == "@reboot":
        raise cron_fields.ExpressionError(
            "@reboot is no time: nothing restarts here; enqueue the job when the worker starts "
            '(@server.on("startup")), or at a time of day'
        )
    raise cron_fields.ExpressionError(f"{macro!r} is none of {', '.join(MACROS)}")


def _is_zone(word: str) -> bool:
    first = re.split(r"[-,/#%&]", word.upper())[0]
    return word[0].isalpha() and first not in cron_fields.WEEKDAYS


def _parse(
    line: str, text: str, context: tuple[str, Bounds], specs: Sequence[cron_fields.FieldSpec]
) -> Cron:
    timezone, bounds = context
    words, zone = split_line(line, timezone)
    check_zone(zone)
    second = words.pop(0) if len(words) > _FIELDS else ("0", 1)
    fields = [(word.upper(), place) for word, place in (*words, second)]

    def read(place: int) -> tuple[int, ...]:
        return cron_fields.values_at(
            fields[place], lambda each: _values(specs[place], each.split(","))
        )

    parsed = cron_fields.CronFields(
        minutes=read(_MINUTE),
        hours=read(_HOUR),
        day_rules=(_day_fields(fields[_DATE], fields[_WEEKDAY], specs),),
        months=read(_MONTH),
        years=_YEARS,
    )
    return Cron(text=text, timezone=zone, bounds=bounds, fields=parsed, seconds=read(_SECOND))


def _day_fields(date: Word, weekday: Word, specs: Sequence[cron_fields.FieldSpec]) -> DayFields:
    is_both = any(text.startswith("*") for text, _ in (date, weekday))
    if specs is _SIDEKIQ_CRON:
        is_both = is_both or any(text.endswith("&") for text, _ in (date, weekday))
        date, weekday = ((text.removesuffix("&"), place) for text, place in (date, weekday))
    dates, from_end = cron_fields.values_at(date, lambda text: _dates(specs[_DATE], text))
    weekdays, nth = cron_fields.values_at(weekday, lambda text: _weekdays(specs[_WEEKDAY], text))
    return DayFields(
        dates=dates,
        from_end=from_end,
        weekdays=weekdays,
        nth=nth,
        joined="both" if is_both else "either",
    )


def _dates(spec: cron_fields.FieldSpec, text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Days of the month, and days counted from its end."""
    items = text.split(",")
    counted = [item for item in items if spec.wraps and item.startswith(("-", "L"))]
    from_end: set[int] = set()
    for item in counted:
        # `-2`, `-7-L` and `-7--2`; `L` is `-1`.
        found = re.fullmatch(r"-([0-9]{1,2})(?:--([0-9]{1,2}))?", re.sub("LAST|L", "-1", item))
        if found is None:
            raise spec.refuse(item, "cannot be read")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 1 <= last <= first <= spec.high:
            raise spec.refuse(item, "is no range of days from the end, such as -7-L")
        from_end.update(range(last, first + 1))
    dates = _values(spec, [item for item in items if item not in counted])
    return dates, tuple(sorted(from_end))


def _weekdays(
    spec: cron_fields.FieldSpec, text: str
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Whole weekdays and n-th ones, 1-7 = SUN-SAT as EventBridge counts them."""
    items = text.split(",")
    numbered = [item for item in items if spec.wraps and re.search("[#%]", item)]
    nth: set[tuple[int, int]] = set()
    for item in numbered:
        if "%" in item:
            raise spec.refuse(
                item,
                "counts weeks from 2019-01-01, which only fugit does; enqueue weekly, and decide in the job",
            )
        weekday, _, week = item.partition("#")
        number = re.sub("LAST|L", "-1", week)
        if not re.fullmatch("[0-9A-Z]+#-?[1-5]", f"{weekday}#{number}"):
            raise spec.refuse(item, "asks for a week which is not 1 to 5, or L")
        nth.update((value + 1, int(number)) for value in _item(spec, weekday))
    weekdays = _values(spec, [item for item in items if item not in numbered])
    return tuple(value + 1 for value in weekdays), tuple(sorted(nth))


def _values(spec: cron_fields.FieldSpec, items: Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted({value for item in items for value in _item(spec, item)}))


def _item(spec: cron_fields.FieldSpec, item: str) -> Sequence[int]:
    """The values of `*`, `7`, `2-5`, `22-2`, `*/n` or `2-5/n`; weekdays are 0-6 = SUN-SAT.

    croniter's values but for two readings, which are not those of crontab(5), where a range is inclusive:
    7-7 and 5-5 are one value (to croniter the whole field), and 23-5/2 goes on with 1 after 23 (to croniter with 2).
    """
    found = _ITEM.fullmatch(item)
    if found is None:
        raise spec.refuse(item, "cannot be read")
    first, last, step = found["first"], found["last"], found["step"]
    values = _read(spec, item)
    if not last:
        if step and first != "*":
            top = _read(spec, "*")[-1]
            raise spec.refuse(
                item,
                f"has a step after one number, which crons read differently (write {first}-{top}/{step})",
            )
        return values
    low, high = _read(spec, first)[0], _read(spec, last)[0]
    is_weekday = spec.name == "day of week"
    is_to_sunday = is_weekday and last.lstrip("0") in ("7", "SUN")
    if low == high:
        return values if is_to_sunday and first != last else (low,)
    if low < high or is_to_sunday:
        return values
    if not spec.wraps:
        raise spec.refuse(item, "runs backwards (write two ranges with a comma)")
    if not step:
        return values
    if is_weekday:
        raise spec.refuse(item, "wraps around with a step, which crons read differently")
    values = _read(spec, f"{first}-{last}")
    start = values.index(low)
    return (values[start:] + values[:start])[:: int(step)]


def _read(spec: cron_fields.FieldSpec, item: str) -> tuple[int, ...]:
    """What croniter reads in an item; its errors become ours."""
    try:
        return _expand(_PLACES[spec.name], item)
    except ValueError as error:
        reason = str(error)
        problem = "is out of range" if "out of" in reason else "cannot be read"
        if "step" in reason:
            problem = "has a step which is not a whole number above 0"
        raise spec.refuse(item, problem) from None


@functools.lru_cache(maxsize=4096)
def _expand(place: int, item: str) -> tuple[int, ...]:
    # Loaded by the first line of a crontab: neither a push nor a rule of EventBridge needs it.
    from croniter import croniter  # noqa: PLC0415

    fields = ["*"] * len(_ROWS)
    fields[place] = item
    values = croniter.expand(" ".join(fields))[0][place]
    if values == ["*"]:
        first, last = croniter.RANGES[place]
        return tuple(range(first, last + 1))
    return tuple(values)
