"""Reading sidekiq-cron's schedules: its file (config/schedule.yml), and what it keeps in Redis.

A definition has `cron` and `class`, and perhaps `args`, `queue`, `description`, `status`, `active_job`
(protocol §20). What it does at run time and no payload can hold is refused: `date_as_argument`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    Reading,
    Unsayable,
)
from kiqbridge.schedule.imports.yaml_schedules import Definition, definitions, read_each
from kiqbridge.schedule.sidekiq_cron import parse_sidekiq_cron

_KNOWN: Final = frozenset(
    [
        "name",
        "cron",
        "class",
        "klass",
        "args",
        "queue",
        "queue_name",
        "description",
        "status",
        "active_job",
        "date_as_argument",
        "queue_name_prefix",
        "queue_name_delimiter",
        "active_job_queue_name_prefix",
        "active_job_queue_name_delimiter",
        "symbolize_args",
        "retry",
        "last_enqueue_time",
        "message",
        "source",
    ]
)
_FIELDS: Final = 5


def read_sidekiq_cron_file(text: str, reading: Reading) -> Imported:
    """Read the file.

    Raises:
        ImportKindError: it is no YAML, or has no definition with a cron.
    """
    return read_definitions(definitions(text), reading)


def read_definitions(found: Sequence[Definition], reading: Reading) -> Imported:
    """As `read_sidekiq_cron_file`, of definitions from anywhere.

    Raises:
        ImportKindError: none has a cron.
    """
    return read_each("sidekiq-cron", found, ("cron",), reading, _schedule)


def fugit_expression(text: object, timezone: str) -> tuple[str, str, str]:
    """The expression that fires when sidekiq-cron does, its zone, and the five fields of the source ("" = other).

    Raises:
        Unsayable: it cannot be read, or not with the same meaning.
    """
    if not isinstance(text, str) or not text.strip():
        raise Unsayable(f"cron: {text!r} is no text")
    try:
        parsed = parse_sidekiq_cron(text, timezone)
    except ExpressionError as error:
        raise Unsayable(str(error)) from None
    words = [word for word in text.split() if word != parsed.timezone]
    if len(words) == _FIELDS + 1 and words[0] == "0":
        words = words[1:]
    fields = " ".join(words) if len(words) == _FIELDS else ""
    return parsed.text, parsed.timezone, fields


def _schedule(found: Definition, reading: Reading) -> ImportedSchedule:
    members = found.members
    if "cron" not in members:
        raise Unsayable("it has no cron")
    if not found.name:
        raise Unsayable("it has no name")
    if _is_true(members.get("date_as_argument")):
        raise Unsayable(
            "date_as_argument adds the time of each enqueuing to the arguments, which no rule can; take the "
            "time in the job (its tick has the instant)"
        )
    expression, zone, fields = fugit_expression(members["cron"], reading.timezone)
    notes = [f"{name} is not carried over" for name in sorted(set(members) - _KNOWN)]
    if _is_true(members.get("symbolize_args")):
        notes.append("symbolize_args: the keys arrive as texts")
    return ImportedSchedule(
        name=found.name,
        line=found.line,
        source=found.source,
        expression=expression,
        source_expression=fields,
        timezone=zone,
        job=_job(members, reading),
        dialect="fugit",
        description=str(members.get("description") or ""),
        notes=tuple(notes),
        enabled=members.get("status", "enabled") != "disabled",
    )


def _job(members: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    active_job = _is_true(members.get("active_job"))
    queue = text_member(members, "queue", "queue_name") or reading.queue
    prefix = text_member(members, "queue_name_prefix", "active_job_queue_name_prefix")
    if active_job and prefix:
        names = ("queue_name_delimiter", "active_job_queue_name_delimiter")
        queue = f"{prefix}{text_member(members, *names) or '_'}{queue}"
    job: dict[str, Any] = {
        "active_job" if active_job else "class": class_member(members),
        "args": args_member(members.get("args")),
        "queue": queue,
    }
    if "retry" in members:
        job["retry"] = members["retry"]
    return job


def class_member(members: Mapping[str, Any]) -> str:
    """The class of a definition.

    Raises:
        Unsayable: it has none.
    """
    name = text_member(members, "class", "klass")
    if not name:
        raise Unsayable("it has no class")
    return name


def text_member(members: Mapping[str, Any], *names: str) -> str:
    """The first of these members that is there, a symbol as its name; "" if none is."""
    value = next((members[name] for name in names if members.get(name) not in (None, "")), "")
    return str(value).removeprefix(":")


def args_member(value: Any) -> list[Any]:
    """The arguments: a list as it is, anything else as the only one.

    Raises:
        Unsayable: a text that may be meant as JSON, or a value that JSON does not have.
    """
    if value in (None, ""):
        return []
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        raise Unsayable(f"args: {value!r} is a text that looks like JSON; write it as YAML")
    args = value if isinstance(value, list) else [value]
    _check(args)
    return args


def _check(value: Any) -> None:
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check(each)
    elif isinstance(value, str) and value.startswith(":") and value[1:].isidentifier():
        raise Unsayable(f"args: {value} is a symbol, which JSON does not have (write a text)")
    elif not isinstance(value, str | int | float | bool | None):
        raise Unsayable(f"args: {value!r} is a date, which JSON does not have (write a text)")


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in ("true", "1"))
