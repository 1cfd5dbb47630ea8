r"""Reading crontabs: a user's own (`crontab -l`), and the system's with its user column (/etc/crontab, /etc/cron.d).

By crontab(5) of Debian's cron, and cronie's `CRON_TZ`:

1. `NAME=VALUE` holds for the lines below it; `CRON_TZ` is the zone of their schedules, `TZ` that of the
   commands, which sets nothing here.
2. A line is five fields or a macro, in a system's crontab a user, and the command.
3. In the command `%` is a line break and begins the standard input, `\%` is a percent sign.
4. Comments right above a line describe it, unless they are lines that were switched off.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import MACROS, parse_crontab
from kiqbridge.schedule.imports.command_line import SHELL_COMMAND, job_of_command
from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    ImportKindError,
    Reading,
    Unsayable,
)

_FIELDS: Final = 5
_VARIABLE: Final = re.compile(r"""\s*(["']?)([A-Za-z_]\w*)\1\s*=\s*(.*?)\s*""")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?(:[A-Za-z0-9_.-]+)?")
_LOOKS_LIKE_FIELDS: Final = re.compile(r"#+\s*(@[a-z]+\s+\S|([0-9*][0-9*,/-]*\s+){2})")
_WITHOUT_EFFECT: Final = {
    "MAILTO": "output is not mailed: it is in the worker's log, and failed jobs are retried and shown",
    "MAILFROM": "output is not mailed",
}
_SHELL_VARIABLES: Final = frozenset({"SHELL", "LOGNAME", "USER", "HOME", "CONTENT_TYPE"})


def read_crontab(text: str, reading: Reading, *, has_user: bool) -> Imported:
    """Read a crontab.

    Args:
        text: of the whole file.
        reading: what the file leaves open.
        has_user: whether there is a user between the fields and the command.

    Raises:
        ImportKindError: no line of it is one of a crontab.
    """
    imported = Imported(kind="system-crontab" if has_user else "crontab")
    state = _State(zone=reading.timezone)
    for number, line in enumerate(text.splitlines(), start=1):
        _read_line(line, number, imported, (state, reading, has_user))
    if not imported.schedules and imported.refused and not state.variables:
        first = imported.refused[0]
        raise ImportKindError(
            f"this is no crontab: line {first.line}, {first.source!r}: {first.reason}"
        )
    imported.notes += _notes(imported, state, reading)
    return imported


@dataclass(slots=True, kw_only=True)
class _State:
    """What the lines above have set."""

    zone: str
    zone_line: int = 0
    zone_fault: str = ""
    comments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def _read_line(
    line: str, number: int, imported: Imported, context: tuple[_State, Reading, bool]
) -> None:
    state, reading, has_user = context
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        _note_comment(stripped, state)
        return
    variable = _VARIABLE.fullmatch(line)
    # A command with `=` in it comes after fields, whose names are no identifiers.
    if variable is not None:
        _set(variable[2], _unquoted(variable[3]), number, (state, imported, stripped))
        state.comments.clear()
        return
    try:
        imported.schedules.append(_schedule(stripped, number, state, (reading, has_user)))
    except Unsayable as reason:
        imported.refuse(number, stripped, reason)
    state.comments.clear()


def _note_comment(stripped: str, state: _State) -> None:
    text = stripped.lstrip("#").strip()
    if not text or _LOOKS_LIKE_FIELDS.match(stripped):
        state.comments.clear()  # an empty line ends a comment
    else:
        state.comments.append(text)


def _set(name: str, value: str, number: int, context: tuple[_State, Imported, str]) -> None:
    state, imported, source = context
    state.variables[name] = value
    if name != "CRON_TZ":
        return
    state.zone, state.zone_line, state.zone_fault = value, number, ""
    try:
        parse_crontab("* * * * *", value)
    except ExpressionError as error:
        reason = str(error).partition(": ")[2]
        state.zone_fault = f"CRON_TZ in line {number}: {reason}"
        imported.refuse(number, source, reason)


def _schedule(
    line: str, number: int, state: _State, context: tuple[Reading, bool]
) -> ImportedSchedule:
    reading, has_user = context
    fields, rest = _split(line)
    if state.zone_fault:
        raise Unsayable(state.zone_fault)
    user = ""
    if has_user:
        user, rest = [*rest.split(None, 1), "", ""][:2]
        if not _USER.fullmatch(user) or not rest.strip():
            raise Unsayable(
                f"{user!r} is no user with a command after it, as system crontabs have them; read it "
                "with --kind crontab if it has no user column"
            )
    try:
        parse_crontab(fields, state.zone)
    except ExpressionError as error:
        raise Unsayable(str(error).removeprefix(f"crontab line {fields!r}: ")) from None
    found = job_of_command(_without_input(rest), reading)
    is_shell = found.job.get("class") == SHELL_COMMAND
    notes = list(found.notes)
    if user:
        runs_as = "; here the worker's own user runs it" if is_shell else ""
        notes.append(f"it ran as {user}{runs_as}")
    return ImportedSchedule(
        name=found.name,
        line=number,
        source=line,
        expression=fields,
        timezone=state.zone,
        job=found.job,
        dialect="cron",
        description=" ".join(state.comments),
        notes=tuple(notes),
    )


def _split(line: str) -> tuple[str, str]:
    """The five fields (a macro is written out), and what follows them."""
    words = line.split(None, _FIELDS)
    if words[0].startswith("@"):
        if words[0] not in MACROS:
            try:
                parse_crontab(words[0])
            except ExpressionError as error:
                raise Unsayable(str(error).removeprefix(f"crontab line {words[0]!r}: ")) from None
        return MACROS[words[0]], line[len(words[0]) :].strip()
    fields = " ".join(words[:_FIELDS])
    return fields, words[_FIELDS] if len(words) > _FIELDS else ""


def _without_input(command: str) -> str:
    """The command as cron hands it to the shell.

    Raises:
        Unsayable: it has a standard input.
    """
    parts = re.split(r"(?<!\\)%", command)
    if any(part.strip() for part in parts[1:]):
        raise Unsayable(
            "what follows % is the standard input of the command, which a job does not have; write it "
            r"into a script, or \% if a percent sign is meant"
        )
    return parts[0].replace("\\%", "%")


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _notes(imported: Imported, state: _State, reading: Reading) -> list[str]:
    notes = []
    if imported.schedules and not state.zone_line:
        notes.append(
            f"no CRON_TZ: read in {reading.timezone}; cron uses the zone of its host (`timedatectl`), "
            "give that with --timezone"
        )
    notes += [
        f"{name}: {effect}" for name, effect in _WITHOUT_EFFECT.items() if name in state.variables
    ]
    if "TZ" in state.variables:
        notes.append(
            f"TZ={state.variables['TZ']} is the zone of the commands, not of their schedules; cron "
            "takes CRON_TZ for those"
        )
    notes += _environment_notes(state.variables)
    return notes


def _environment_notes(variables: Mapping[str, str]) -> list[str]:
    known = {"CRON_TZ", "TZ", *_WITHOUT_EFFECT, *_SHELL_VARIABLES}
    others = sorted(set(variables) - known)
    if not others:
        return []
    return [f"{', '.join(others)}: set it in the worker's environment if a command needs it"]
