"""Classic crontab lines: five fields on the wall clock of a zone, as Debian's cron reads them.

Four rules differ from EventBridge's cron expressions (crontab(5)):

1. Weekdays are 0-7, and both 0 and 7 are Sunday.
2. With both day fields restricted, a day matches that either of them names; but a day field that begins
   with `*` leaves the choice to the other one, so then both must match.
3. Ranges that run backwards, and a step after a single number, are errors here: implementations differ
   in what they make of them.
4. What daylight saving time skips or repeats goes by Scheduler's rule (cron.py), not by cron's own, since
   that is what will fire.

In front of the fields may stand `CRON_TZ=ZONE`, after them the name of a zone, as sidekiq-cron has it, or a
command, which is not looked at.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kiqbridge.schedule.cron import Cron, bounds_of, check_zone
from kiqbridge.schedule.cron_fields import (
    FIRST_YEAR,
    LAST_YEAR,
    MONTHS,
    WEEKDAYS,
    CronFields,
    ExpressionError,
    FieldSpec,
    whole_number,
)
from kiqbridge.schedule.day_fields import DayFields

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FORM: Final = "range a-b, step */n or a-b/n, list a,b of them, or *"
_MINUTES = FieldSpec(name="minute", low=0, high=59, forms=_FORM)
_HOURS = FieldSpec(name="hour", low=0, high=23, forms=_FORM)
_DAY_OF_MONTH = FieldSpec(name="day of month", low=1, high=31, forms=_FORM)
_MONTH = FieldSpec(name="month", low=1, high=12, names=MONTHS, also=" or JAN-DEC", forms=_FORM)
_DAY_OF_WEEK = FieldSpec(
    name="day of week", low=0, high=7, names=WEEKDAYS, also=" or SUN-SAT", forms=_FORM
)
_FIELDS: Final = 5
_YEARS: Final = tuple(range(FIRST_YEAR, LAST_YEAR + 1))
_CRON_FIELD: Final = re.compile(r"[0-9*?,/LW#-]+")
_ZONE: Final = re.compile(r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z0-9_+-]+)+|UTC|GMT")


def parse_crontab(
    line: str,
    timezone: str = "UTC",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Cron:
    """Read a crontab line.

    Args:
        line: `0 3 * * 1-5`, `@daily`, `CRON_TZ=Europe/Paris 0 3 * * *`, `0 3 * * * Europe/Paris`, or one
            of these with a command after it.
        timezone: of a line that names none.
        start: aware; what is due before it is not counted. `end` likewise; both are included.

    Raises:
        ExpressionError: naming the field, its value and what is allowed instead.
    """
    try:
        words, zone = _without_zone(_words(line), timezone)
        check_zone(zone)
        fields = _parse_fields(words)
        return Cron(text=line, timezone=zone, bounds=bounds_of(start, end), fields=fields)
    except ExpressionError as error:
        raise ExpressionError(f"crontab line {line!r}: {error}") from None


def _words(line: str) -> list[str]:
    if len(lines := line.strip().splitlines()) > 1:
        raise ExpressionError(
            f"has {len(lines)} lines; give one of them, or read a file with kiqbridge schedule import"
        )
    return line.split()


def _without_zone(words: Sequence[str], timezone: str) -> tuple[list[str], str]:
    """The five fields of a line and the zone that it names."""
    words = list(words)
    if words and words[0].startswith(("CRON_TZ=", "TZ=")):
        name, _, timezone = words.pop(0).partition("=")
        if name == "TZ":
            raise ExpressionError(
                "TZ=: sets the zone of the command, not of the schedule; write CRON_TZ= if the schedule is meant"
            )
    if not words:
        raise ExpressionError("is empty; write five fields such as 0 3 * * * for three each night")
    if words[0].startswith("@"):
        words[:1] = _expanded(words[0]).split()
    if len(words) == _FIELDS + 1 and _ZONE.fullmatch(words[_FIELDS]):
        timezone = words[_FIELDS]
    elif len(words) > _FIELDS and _CRON_FIELD.fullmatch(words[_FIELDS]):
        raise ExpressionError(
            "has more than 5 fields: seconds and years are not crontab's; write minute hour "
            "day-of-month month day-of-week"
        )
    return words[:_FIELDS], timezone


def _expanded(macro: str) -> str:
    if macro in MACROS:
        return MACROS[macro]
    if macro == "@reboot":
        raise ExpressionError(
            "@reboot is no time: nothing restarts here; enqueue the job when the worker starts "
            '(@server.on("startup")), or at a time of day'
        )
    raise ExpressionError(f"{macro!r} is none of {', '.join(MACROS)}")


def _parse_fields(words: Sequence[str]) -> CronFields:
    if len(words) != _FIELDS:
        raise ExpressionError(
            f"has {len(words)} fields; write 5: minute hour day-of-month month day-of-week, such as "
            "0 3 * * * for three each night"
        )
    minutes, hours, day_of_month, month, day_of_week = (word.upper() for word in words)
    return CronFields(
        minutes=_values(_MINUTES, minutes),
        hours=_values(_HOURS, hours),
        day_rules=(_day_fields(day_of_month, day_of_week),),
        months=_values(_MONTH, month),
        years=_YEARS,
    )


def _day_fields(day_of_month: str, day_of_week: str) -> DayFields:
    # EventBridge's numbers: 1-7 = SUN-SAT.
    weekdays = {value % 7 + 1 for value in _values(_DAY_OF_WEEK, day_of_week)}
    is_both = day_of_month.startswith("*") or day_of_week.startswith("*")
    return DayFields(
        dates=_values(_DAY_OF_MONTH, day_of_month),
        weekdays=tuple(sorted(weekdays)),
        joined="both" if is_both else "either",
    )


def _values(spec: FieldSpec, text: str) -> tuple[int, ...]:
    return tuple(sorted({n for item in text.split(",") for n in _item(spec, item)}))


def _item(spec: FieldSpec, item: str) -> Sequence[int]:
    """The values of `*`, `7`, `2-5`, `*/n` or `2-5/n`."""
    base, slash, step_text = item.partition("/")
    step = whole_number(step_text) if slash else 1
    if not step:
        raise spec.refuse(item, "has a step which is not a whole number above 0")
    if base == "*":
        return range(spec.low, spec.high + 1, step)
    first_text, dash, last_text = base.partition("-")
    first = spec.number(first_text, item)
    if not dash:
        if slash:
            raise spec.refuse(
                item,
                f"has a step after one number, which crons read differently (write {first}-{spec.high}/{step})",
            )
        return (first,)
    last = spec.number(last_text, item)
    if first > last == 0 and spec is _DAY_OF_WEEK and last_text == "SUN":
        last = 7
    if first > last:
        raise spec.refuse(item, "runs backwards (write two ranges with a comma)")
    return range(first, last + 1, step)
