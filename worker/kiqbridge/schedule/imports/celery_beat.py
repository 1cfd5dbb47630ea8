"""Reading Celery beat's schedules: a Python file with `beat_schedule`, or a JSON dump of django-celery-beat.

The Python is read as a syntax tree and never run, so what is no literal but `crontab(…)`, `timedelta(…)` and
`schedule(…)` is refused. The fields of a crontab have all to match; where both day fields are restricted, that
is written with `&`.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    ImportKindError,
    Reading,
    Unsayable,
)

_NAMES: Final = frozenset({"beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"})
_ZONES: Final = frozenset({"timezone", "CELERY_TIMEZONE"})
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
"""In the order of crontab()'s parameters."""
_PERIODS: Final = frozenset({"days", "hours", "minutes", "seconds"})


def read_celery_beat(text: str, reading: Reading) -> Imported:
    """Read the file.

    Raises:
        ImportKindError: it is neither, or has no schedules.
    """
    is_json = text.lstrip().startswith(("[", "{"))
    found = list(_of_dump(text, reading) if is_json else _of_python(text, reading))
    imported = Imported(kind="celery-beat")
    for task in found:
        try:
            imported.schedules.append(_schedule(task, reading))
        except Unsayable as reason:
            imported.refuse(task.line, task.source, reason)
    if imported.schedules:
        imported.notes.append(
            "the job's class is the name of the task: declare it with @job(name=…), or rename it"
        )
    return imported


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    name: str
    line: int
    source: str
    members: Mapping[str, Any]
    timezone: str
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crontab:
    """The five fields, in crontab's order."""

    text: str


def _schedule(task: _Task, reading: Reading) -> ImportedSchedule:
    members = task.members
    if task.fault:
        raise Unsayable(task.fault)
    if members.get("kwargs"):
        raise Unsayable(f"kwargs: {members['kwargs']!r}: a job's arguments are a list; use args")
    name, args = members.get("task"), members.get("args") or []
    if not isinstance(name, str) or not name:
        raise Unsayable("it has no task")
    options = members.get("options") or {}
    when = members.get("schedule")
    expression = when.text if isinstance(when, _Crontab) else _every(when)
    try:
        parse_expression(expression, task.timezone)
    except ExpressionError as error:
        raise Unsayable(str(error)) from None
    left_out = sorted(set(options) - {"queue"}) + sorted({"relative", "expires"} & set(members))
    return ImportedSchedule(
        name=task.name,
        line=task.line,
        source=task.source,
        expression=expression,
        source_expression=expression.replace("&", ""),
        timezone=task.timezone,
        job={
            "class": name,
            "args": list(args),
            "queue": options.get("queue") or reading.queue,
        },
        dialect="celery",
        description=str(members.get("description") or ""),
        notes=tuple(f"{option} is not carried over" for option in left_out),
        enabled=members.get("enabled", True) is not False,
    )


def _every(value: Any) -> str:
    """`every Ns` of seconds or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or seconds <= 0 or seconds != int(seconds):
        raise Unsayable(f"schedule: {value!r} is no crontab and no whole number of seconds")
    return f"every {int(seconds)}s"


def _crontab(fields: Mapping[str, Any]) -> _Crontab:
    texts = {name: "".join(str(fields.get(name, "*")).split()) for name in _FIELDS}
    weekday, date = texts["day_of_week"], texts["day_of_month"]
    if date != "*" and weekday != "*":
        weekday += "&"
    return _Crontab(
        text=f"{texts['minute']} {texts['hour']} {date} {texts['month_of_year']} {weekday}"
    )


def _of_python(text: str, reading: Reading) -> Iterator[_Task]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ImportKindError(f"this is no Python: {error}") from error
    zone, tables = reading.timezone, []
    for node in ast.walk(tree):
        for name, value in _assigned(node):
            if name in _ZONES and isinstance(value, ast.Constant) and isinstance(value.value, str):
                zone = value.value
            elif name in _NAMES and isinstance(value, ast.Dict):
                tables.append(value)
    if not tables:
        raise ImportKindError(f"it assigns no dictionary to {' or '.join(sorted(_NAMES))}")
    lines = text.splitlines()
    for table in tables:
        for key, value in zip(table.keys, table.values, strict=True):
            yield _task(key, value, zone, lines)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names, attributes and keyword arguments, and what they are set to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield _last_name(target), node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield _last_name(node.target), node.value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _task(key: ast.expr | None, value: ast.expr, zone: str, lines: list[str]) -> _Task:
    line = (key or value).lineno
    source = lines[line - 1].strip()
    name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    try:
        members = _value(value)
    except Unsayable as reason:
        return _Task(
            name=name, line=line, source=source, members={}, timezone=zone, fault=str(reason)
        )
    fault = "" if name and isinstance(members, dict) else "it is no name with a dictionary"
    return _Task(
        name=name,
        line=line,
        source=source,
        members=members if isinstance(members, dict) else {},
        timezone=zone,
        fault=fault,
    )


def _value(node: ast.expr) -> Any:
    """A literal, or one of the calls that say a time."""
    if isinstance(node, ast.Dict):
        return {_value(key): _value(each) for key, each in _pairs(node)}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Call):
        return _call(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _value(node.left), _value(node.right)
        if isinstance(left, int | float) and isinstance(right, int | float):
            return left * right
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        raise Unsayable(f"{ast.unparse(node)[:60]!r} is no literal; write its value") from None


def _pairs(node: ast.Dict) -> Iterator[tuple[ast.expr, ast.expr]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise Unsayable("** takes in another dictionary; write its members out")
        yield key, value


def _call(node: ast.Call) -> Any:
    name = _last_name(node.func)
    args = [_value(each) for each in node.args]
    named = {each.arg: _value(each.value) for each in node.keywords if each.arg}
    if name == "crontab" and len(args) <= len(_FIELDS) and set(named) <= set(_FIELDS):
        return _crontab({**dict(zip(_FIELDS, args, strict=False)), **named})
    if name == "timedelta" and not args and set(named) <= {*_PERIODS, "weeks"}:
        return timedelta(**named)
    if name == "schedule" and set(named) <= {"run_every"} and len(args) + len(named) == 1:
        return args[0] if args else named["run_every"]
    raise Unsayable(f"{ast.unparse(node)[:60]!r} cannot be read; write a crontab or seconds")


def _of_dump(text: str, reading: Reading) -> Iterator[_Task]:
    try:
        rows = json.loads(text)
        tables: dict[str, dict[Any, dict[str, Any]]] = {}
        for row in rows:
            tables.setdefault(row["model"].lower(), {})[row["pk"]] = row["fields"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ImportKindError(f"this is no dump of django-celery-beat: {error!r}") from error
    tasks = tables.get("django_celery_beat.periodictask", {})
    if not tasks:
        raise ImportKindError("it has no rows of django_celery_beat.periodictask")
    for key, fields in tasks.items():
        yield _row(key, fields, tables, reading)


def _row(key: Any, fields: Mapping[str, Any], tables: Mapping[str, Any], reading: Reading) -> _Task:
    zone, fault = reading.timezone, ""
    when: _Crontab | timedelta | None = None
    crontab = tables.get("django_celery_beat.crontabschedule", {}).get(fields.get("crontab"))
    interval = tables.get("django_celery_beat.intervalschedule", {}).get(fields.get("interval"))
    if crontab is not None:
        when, zone = _crontab(crontab), str(crontab.get("timezone") or zone)
    elif interval is not None and interval.get("period") in _PERIODS:
        when = timedelta(**{interval["period"]: interval.get("every", 0)})
    else:
        fault = "its schedule is no crontab and no interval of the dump"
    try:
        args = json.loads(fields.get("args") or "[]")
        kwargs = json.loads(fields.get("kwargs") or "{}")
    except (ValueError, TypeError):
        args, kwargs, fault = [], {}, "args or kwargs are no JSON"
    if fields.get("one_off") or fields.get("start_time") or fields.get("expires"):
        fault = fault or "one_off, start_time and expires are not read; write at(…), start and end"
    members = {
        **fields,
        "schedule": when,
        "args": args,
        "kwargs": kwargs,
        "options": {"queue": fields["queue"]} if fields.get("queue") else {},
    }
    members.pop("expires", None)
    name = str(fields.get("name") or key)
    return _Task(
        name=name,
        line=1,
        source=f"periodictask {key}: {name}",
        members=members,
        timezone=zone,
        fault=fault,
    )
