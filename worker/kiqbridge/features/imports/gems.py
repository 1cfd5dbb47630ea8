"""Reading the YAML of the two Sidekiq gems, and what sidekiq-cron keeps in Redis; nothing is constructed from a tag.

- sidekiq-cron: `config/schedule.yml`, a mapping or a list. A definition has `cron` and `class`, and perhaps `args`,
  `queue`, `description`, `status`, `active_job` (protocol §20). What it does at run time and no payload can hold is
  refused: `date_as_argument`.
- sidekiq-scheduler: under `:scheduler: :schedule:` or `:schedule:` of `config/sidekiq.yml`. A definition says when by
  one of `cron`, `every`, `interval`, `at` and `in`. `cron` is read as fugit reads it; `every` counts elapsed time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, SequenceNode

from kiqbridge.features.imports import record
from kiqbridge.features.imports.fugit import parse_sidekiq_cron
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.wire.bounded_yaml import BoundedLoader, BoundError

_FIELDS: Final = 5
_OF_CRON: Final = frozenset(
    [
        *("name", "cron", "class", "klass", "args", "queue", "queue_name", "description"),
        *("status", "active_job", "date_as_argument", "queue_name_prefix"),
        *("queue_name_delimiter", "active_job_queue_name_prefix"),
        *("active_job_queue_name_delimiter", "symbolize_args", "retry", "last_enqueue_time"),
        *("message", "source"),
    ]
)
_TIMES: Final = ("cron", "every", "interval", "at", "in")
_OF_SCHEDULER: Final = frozenset(
    {*_TIMES, "class", "args", "queue", "description", "enabled", "include_metadata", "active_job"}
)

_ERB: Final = (
    "it has ERB (<%), whose value only Ruby knows; write it out, such as with "
    "`ruby -rerb -e 'puts ERB.new(ARGF.read).result' FILE`"
)

_Time = tuple[str, str, str]
"""Expression, zone, and what the source says: its five fields, else its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One schedule of a file: its name, its members without the colon of symbols, its first line and text."""

    name: str
    members: Mapping[str, Any]
    line: int
    source: str


def read_sidekiq_cron_file(text: str, reading: record.Reading) -> record.Imported:
    """Read a file of sidekiq-cron.

    Raises:
        ImportKindError: it is no YAML, or has no definition with a cron.
    """
    return read_definitions(_definitions(text, ((),)), reading)


def read_definitions(found: Sequence[Definition], reading: record.Reading) -> record.Imported:
    """Read definitions of sidekiq-cron that do not come from a file.

    Raises:
        ImportKindError: none has a cron.
    """
    return _read_each("sidekiq-cron", found, ("cron",), reading, _of_sidekiq_cron)


def read_sidekiq_scheduler(text: str, reading: record.Reading) -> record.Imported:
    """Read a file of sidekiq-scheduler.

    Raises:
        ImportKindError: it is no YAML, or has no definition with a time.
    """
    found = _definitions(text, (("scheduler", "schedule"), ("schedule",), ()))
    return _read_each("sidekiq-scheduler", found, _TIMES, reading, _of_sidekiq_scheduler)


def _read_each(
    kind: record.Kind,
    found: Sequence[Definition],
    times: Sequence[str],
    reading: record.Reading,
    schedule_of: Callable[[Definition, record.Reading], record.ImportedSchedule],
) -> record.Imported:
    """The schedule of each definition, or the reason why it has none here; one of them has one of `times`."""
    if found and not any(set(times) & set(each.members) for each in found):
        wanted = f"none of {', '.join(times)}" if len(times) > 1 else f"no {times[0]}"
        raise record.ImportKindError(f"{found[0].source!r} in line {found[0].line} has {wanted}")
    imported = record.Imported(kind=kind)
    for each in found:
        if "<%" in f"{each.name}{each.members}":
            imported.refuse(each.line, each.source, record.Unsayable(_ERB))
            continue
        try:
            imported.schedules.append(schedule_of(each, reading))
        except record.Unsayable as reason:
            imported.refuse(each.line, each.source, reason)
    if imported.schedules:
        imported.notes.append(
            f"schedules without a zone: read in {reading.timezone}; {kind} uses the zone of its process (TZ, "
            "Time.zone), give that with --timezone"
        )
    return imported


def _of_sidekiq_cron(found: Definition, reading: record.Reading) -> record.ImportedSchedule:
    members = found.members
    if "cron" not in members:
        raise record.Unsayable("it has no cron")
    if not found.name:
        raise record.Unsayable("it has no name")
    if _is_true(members.get("date_as_argument")):
        raise record.Unsayable(
            "date_as_argument adds the time of each enqueuing to the arguments, which no rule can; take the "
            "time in the job (its tick has the instant)"
        )
    time = _fugit_time(members["cron"], reading.timezone)
    notes = _not_carried_over(set(members) - _OF_CRON)
    if _is_true(members.get("symbolize_args")):
        notes.append("symbolize_args: the keys arrive as texts")
    queue = _text(members, "queue", "queue_name") or reading.queue
    prefix = _text(members, "queue_name_prefix", "active_job_queue_name_prefix")
    if prefix and _is_true(members.get("active_job")):
        delimiter = _text(members, "queue_name_delimiter", "active_job_queue_name_delimiter")
        queue = f"{prefix}{delimiter or '_'}{queue}"
    job = _job(members, _text(members, "class", "klass"), queue)
    if "retry" in members:
        job["retry"] = members["retry"]
    is_enabled = members.get("status", "enabled") != "disabled"
    return _imported(found, time, job, notes, is_enabled=is_enabled)


def _of_sidekiq_scheduler(found: Definition, reading: record.Reading) -> record.ImportedSchedule:
    members = found.members
    if members.get("include_metadata"):
        raise record.Unsayable(
            "include_metadata adds the time to the arguments, which no rule can; take it in the job (its "
            "tick has the instant)"
        )
    time, notes = _scheduler_time(members, reading.timezone)
    notes += _not_carried_over(set(members) - _OF_SCHEDULER)
    queue = _text(members, "queue") or reading.queue
    job = _job(members, _text(members, "class") or found.name, queue)
    is_enabled = members.get("enabled", True) is not False
    return _imported(found, time, job, notes, is_enabled=is_enabled)


def _imported(
    found: Definition,
    time: _Time,
    job: Mapping[str, Any],
    notes: Sequence[str],
    *,
    is_enabled: bool,
) -> record.ImportedSchedule:
    expression, zone, fields = time
    return record.ImportedSchedule(
        name=found.name,
        line=found.line,
        source=found.source,
        expression=expression,
        source_expression=fields,
        timezone=zone,
        job=job,
        dialect="fugit",
        description=str(found.members.get("description") or ""),
        notes=tuple(notes),
        enabled=is_enabled,
    )


def _fugit_time(text: object, timezone: str) -> _Time:
    """When sidekiq-cron fires.

    Raises:
        Unsayable: it cannot be read, or not with the same meaning.
    """
    if not isinstance(text, str) or not text.strip():
        raise record.Unsayable(f"cron: {text!r} is no text")
    try:
        parsed = parse_sidekiq_cron(text, timezone)
    except ExpressionError as error:
        raise record.Unsayable(str(error)) from None
    words = [word for word in text.split() if word != parsed.timezone]
    if len(words) == _FIELDS + 1 and words[0] == "0":
        words = words[1:]
    return parsed.text, parsed.timezone, " ".join(words) if len(words) == _FIELDS else text


def _scheduler_time(members: Mapping[str, Any], timezone: str) -> tuple[_Time, list[str]]:
    kinds = [kind for kind in _TIMES if kind in members]
    if len(kinds) != 1:
        raise record.Unsayable(
            f"it has {' and '.join(kinds) or 'no time'}; one of {', '.join(_TIMES)} is needed"
        )
    [kind] = kinds
    value, notes = members[kind], []
    if isinstance(value, list):  # ['30m', first_in: '10s']
        if not value:
            raise record.Unsayable("its time is an empty list")
        value, *options = value
        notes = _not_carried_over(
            {name for each in options if isinstance(each, dict) for name in each}
        )
    if kind == "cron":
        return _fugit_time(value, timezone), notes
    if kind == "in":
        raise record.Unsayable(
            "in: counts from each start of the process; enqueue it then with perform_in"
        )
    if kind == "interval":
        notes.append("interval: counted from the end of the last run, here from its start")
    text = str(value).strip()
    expression = re.sub(r"(\d{4})/(\d{1,2})/", r"\1-\2-", text) if kind == "at" else f"every {text}"
    try:
        parsed = parse_expression(expression, timezone)
    except ExpressionError as error:
        raise record.Unsayable(str(error)) from None
    return (parsed.text, parsed.timezone, text), notes


def _not_carried_over(names: set[str]) -> list[str]:
    return [f"{name} is not carried over" for name in sorted(names)]


def _job(members: Mapping[str, Any], name: str, queue: str) -> dict[str, Any]:
    """The job of a definition; `args` that are no list are the only argument.

    Raises:
        Unsayable: it has no class, or args that may be meant as JSON, or that JSON does not have.
    """
    if not name:
        raise record.Unsayable("it has no class")
    args = members.get("args")
    if isinstance(args, str) and args.lstrip().startswith(("[", "{")):
        raise record.Unsayable(f"args: {args!r} is a text that looks like JSON; write it as YAML")
    if not isinstance(args, list):
        args = [] if args in (None, "") else [args]
    _check(args)
    kind = "active_job" if _is_true(members.get("active_job")) else "class"
    return {kind: name, "args": args, "queue": queue}


def _check(value: Any) -> None:
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check(each)
    elif isinstance(value, str) and value.startswith(":") and value[1:].isidentifier():
        raise record.Unsayable(
            f"args: {value} is a symbol, which JSON does not have (write a text)"
        )
    elif not isinstance(value, str | int | float | bool | None):
        raise record.Unsayable(
            f"args: {value!r} is a date, which JSON does not have (write a text)"
        )


def _text(members: Mapping[str, Any], *names: str) -> str:
    """The first of these members that is there, a symbol as its name; "" if none is."""
    value = next((members[name] for name in names if members.get(name) not in (None, "")), "")
    return _bare(str(value))


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in ("true", "1"))


def _definitions(text: str, paths: Sequence[Sequence[str]]) -> list[Definition]:
    """The definitions of a file: a mapping of names to members, or a list of members with a name.

    Args:
        text: of the file.
        paths: keys below which it may lie, the first that is there counts; `()` is the top.

    Raises:
        ImportKindError: it is no YAML of this form.
    """
    try:
        top = yaml.compose(text, Loader=BoundedLoader)
    except BoundError as error:
        raise record.ImportKindError(f"line {error.line}: {error.text}") from error
    except yaml.YAMLError as error:
        erb = f"; {_ERB}" if "<%" in text else ""
        raise record.ImportKindError(
            f"this is not YAML: {' '.join(str(error).split())}{erb}"
        ) from error
    root = next((found for keys in paths if (found := _below(top, keys)) is not None), None)
    if not isinstance(root, MappingNode | SequenceNode):
        raise record.ImportKindError(
            "there are no schedules in it: a mapping of names, each with its class and its time"
        )
    lines = text.splitlines()
    pairs = root.value if isinstance(root, MappingNode) else [(each, each) for each in root.value]
    return [_definition(key, node, lines) for key, node in pairs]


def _definition(key: Node, node: Node, lines: Sequence[str]) -> Definition:
    line = key.start_mark.line
    try:
        # Not SafeLoader: libraries put constructors for any tag into it.
        value = _plain(SafeConstructor().construct_document(node))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise record.ImportKindError(
            f"line {line + 1}: {getattr(error, 'problem', None) or error}"
        ) from error
    members = value if isinstance(value, dict) else {"": value}
    name = str(members.get("name", "") if key is node else key.value)
    return Definition(name=_bare(name), members=members, line=line + 1, source=lines[line].strip())


def _below(node: Node | None, keys: Sequence[str]) -> Node | None:
    for wanted in keys:
        pairs = node.value if isinstance(node, MappingNode) else ()
        node = next((value for key, value in pairs if _bare(str(key.value)) == wanted), None)
    return node


def _plain(value: Any) -> Any:
    """With keys as texts, and without the colon of a symbol at the keys."""
    if isinstance(value, dict):
        return {_bare(str(key)): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _bare(text: str) -> str:
    return text.removeprefix(":")
