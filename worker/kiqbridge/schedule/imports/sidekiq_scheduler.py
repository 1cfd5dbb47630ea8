"""Reading sidekiq-scheduler's schedules, under `:scheduler: :schedule:` or `:schedule:` of config/sidekiq.yml.

A definition says when by one of `cron`, `every`, `interval`, `at` and `in`. `cron` is read as fugit reads it;
`every` counts elapsed time.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    Reading,
    Unsayable,
)
from kiqbridge.schedule.imports.sidekiq_cron_file import (
    args_member,
    class_member,
    fugit_expression,
    text_member,
)
from kiqbridge.schedule.imports.yaml_schedules import Definition, definitions, read_each

_PATHS: Final = (("scheduler", "schedule"), ("schedule",), ())
_TIMES: Final = ("cron", "every", "interval", "at", "in")
_KNOWN: Final = frozenset(
    {*_TIMES, "class", "args", "queue", "description", "enabled", "include_metadata", "active_job"}
)


def read_sidekiq_scheduler(text: str, reading: Reading) -> Imported:
    """Read the file.

    Raises:
        ImportKindError: it is no YAML, or has no definition with a time.
    """
    return read_each("sidekiq-scheduler", definitions(text, _PATHS), _TIMES, reading, _schedule)


def _schedule(found: Definition, reading: Reading) -> ImportedSchedule:
    members = found.members
    if members.get("include_metadata"):
        raise Unsayable(
            "include_metadata adds the time to the arguments, which no rule can; take it in the job (its "
            "tick has the instant)"
        )
    expression, zone, fields, notes = _time(members, reading.timezone)
    notes += [f"{name} is not carried over" for name in sorted(set(members) - _KNOWN)]
    name = text_member(members, "class") or found.name
    job: dict[str, Any] = {
        "active_job" if members.get("active_job") is True else "class": class_member(
            {"class": name}
        ),
        "args": args_member(members.get("args")),
        "queue": text_member(members, "queue") or reading.queue,
    }
    return ImportedSchedule(
        name=found.name,
        line=found.line,
        source=found.source,
        expression=expression,
        source_expression=fields,
        timezone=zone,
        job=job,
        dialect="fugit",
        description=str(members.get("description") or ""),
        notes=tuple(notes),
        enabled=members.get("enabled", True) is not False,
    )


def _time(members: Mapping[str, Any], timezone: str) -> tuple[str, str, str, list[str]]:
    """Expression, zone, the five fields of the source ("" = other), notes."""
    kinds = [kind for kind in _TIMES if kind in members]
    if len(kinds) != 1:
        raise Unsayable(
            f"it has {' and '.join(kinds) or 'no time'}; one of {', '.join(_TIMES)} is needed"
        )
    [kind] = kinds
    value, notes = _without_options(members[kind])
    if kind == "cron":
        return *fugit_expression(value, timezone), notes
    if kind == "in":
        raise Unsayable(
            "in: counts from each start of the process; enqueue it then with perform_in"
        )
    if kind == "interval":
        notes.append("interval: counted from the end of the last run, here from its start")
    text = str(value).strip()
    expression = re.sub(r"(\d{4})/(\d{1,2})/", r"\1-\2-", text) if kind == "at" else f"every {text}"
    try:
        parsed = parse_expression(expression, timezone)
    except ExpressionError as error:
        raise Unsayable(str(error)) from None
    return parsed.text, parsed.timezone, "", notes


def _without_options(value: Any) -> tuple[Any, list[str]]:
    """The time out of `['30m', first_in: '10s']`, and what is left out."""
    if not isinstance(value, list):
        return value, []
    if not value:
        raise Unsayable("its time is an empty list")
    options = [each for each in value[1:] if isinstance(each, dict)]
    names = sorted({name for each in options for name in each})
    return value[0], [f"{name} is not carried over" for name in names]
