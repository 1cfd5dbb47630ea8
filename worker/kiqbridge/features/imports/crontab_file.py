r"""Reading crontabs: a user's own (`crontab -l`), and the system's with its user column (/etc/crontab, /etc/cron.d).

By crontab(5) of Debian's cron, and cronie's `CRON_TZ`:

1. `NAME=VALUE` holds for the lines below it; `CRON_TZ` is the zone of their schedules, `TZ` that of the
   commands, which sets nothing here.
2. A line is five fields or a macro, in a system's crontab a user, and the command.
3. In the command `%` is a line break and begins the standard input, `\%` is a percent sign.
4. Comments right above a line describe it, unless they are lines that were switched off.
"""

import re
from typing import Final

from kiqbridge.features.imports import record
from kiqbridge.features.imports.command_line import SHELL_COMMAND, job_of_command
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import MACROS, parse_crontab

_FIELDS: Final = 5
_VARIABLE: Final = re.compile(r"""\s*(["']?)([A-Za-z_]\w*)\1\s*=\s*(.*?)\s*""")
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?(:[A-Za-z0-9_.-]+)?")
_LOOKS_LIKE_FIELDS: Final = re.compile(r"#+\s*(@[a-z]+\s+\S|([0-9*][0-9*,/-]*\s+){2})")
_WITHOUT_EFFECT: Final = {
    "MAILTO": "output is not mailed: it is in the worker's log, and failed jobs are retried and shown",
    "MAILFROM": "output is not mailed",
}
_SHELL_VARIABLES: Final = frozenset({"SHELL", "LOGNAME", "USER", "HOME", "CONTENT_TYPE"})


def read_crontab(text: str, reading: record.Reading, *, has_user: bool) -> record.Imported:
    """Read a crontab.

    Args:
        text: of the whole file.
        reading: what the file leaves open.
        has_user: whether there is a user between the fields and the command.

    Raises:
        ImportKindError: no line of it is one of a crontab.
    """
    crontab = _Crontab(reading, has_user=has_user)
    for number, line in enumerate(text.splitlines(), start=1):
        crontab.read_line(line, number)
    imported = crontab.imported
    if not imported.schedules and imported.refused and not crontab.variables:
        first = imported.refused[0]
        raise record.ImportKindError(
            f"this is no crontab: line {first.line}, {first.source!r}: {first.reason}"
        )
    imported.notes += crontab.notes()
    return imported


class _Crontab:
    """What was read so far, and what the lines above have set."""

    def __init__(self, reading: record.Reading, *, has_user: bool) -> None:
        self.imported = record.Imported(kind="system-crontab" if has_user else "crontab")
        self.variables: dict[str, str] = {}
        self._reading = reading
        self._has_user = has_user
        self._zone = reading.timezone
        self._zone_fault = ""
        self._comments: list[str] = []

    def read_line(self, line: str, number: int) -> None:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            text = stripped.lstrip("#").strip()
            if not text or _LOOKS_LIKE_FIELDS.match(stripped):
                self._comments.clear()  # an empty line ends a comment
            else:
                self._comments.append(text)
            return
        variable = _VARIABLE.fullmatch(line)
        # A command with `=` in it comes after fields, whose names are no identifiers.
        if variable is not None:
            self._set(variable[2], _unquoted(variable[3]), number, stripped)
        else:
            try:
                self.imported.schedules.append(self._schedule(stripped, number))
            except record.Unsayable as reason:
                self.imported.refuse(number, stripped, reason)
        self._comments.clear()

    def _set(self, name: str, value: str, number: int, source: str) -> None:
        self.variables[name] = value
        if name != "CRON_TZ":
            return
        self._zone, self._zone_fault = value, ""
        try:
            parse_crontab("* * * * *", value)
        except ExpressionError as error:
            reason = str(error).partition(": ")[2]
            self._zone_fault = f"CRON_TZ in line {number}: {reason}"
            self.imported.refuse(number, source, reason)

    def _schedule(self, line: str, number: int) -> record.ImportedSchedule:
        fields, rest = _split(line)
        if self._zone_fault:
            raise record.Unsayable(self._zone_fault)
        user = ""
        if self._has_user:
            user, rest = [*rest.split(None, 1), "", ""][:2]
            if not _USER.fullmatch(user) or not rest.strip():
                raise record.Unsayable(
                    f"{user!r} is no user with a command after it, as system crontabs have them; read it "
                    "with --kind crontab if it has no user column"
                )
        _check(fields, self._zone)
        # The command as cron hands it to the shell.
        parts = re.split(r"(?<!\\)%", rest)
        if any(part.strip() for part in parts[1:]):
            raise record.Unsayable(
                "what follows % is the standard input of the command, which a job does not have; write it "
                r"into a script, or \% if a percent sign is meant"
            )
        found = job_of_command(parts[0].replace("\\%", "%"), self._reading)
        notes = list(found.notes)
        if user:
            is_shell = found.job.get("class") == SHELL_COMMAND
            runs_as = "; here the worker's own user runs it" if is_shell else ""
            notes.append(f"it ran as {user}{runs_as}")
        return record.ImportedSchedule(
            name=found.name,
            line=number,
            source=line,
            expression=fields,
            timezone=self._zone,
            job=found.job,
            dialect="cron",
            description=" ".join(self._comments),
            notes=tuple(notes),
        )

    def notes(self) -> list[str]:
        notes = []
        if self.imported.schedules and "CRON_TZ" not in self.variables:
            notes.append(
                f"no CRON_TZ: read in {self._reading.timezone}; cron uses the zone of its host (`timedatectl`), "
                "give that with --timezone"
            )
        notes += [
            f"{name}: {effect}"
            for name, effect in _WITHOUT_EFFECT.items()
            if name in self.variables
        ]
        if "TZ" in self.variables:
            notes.append(
                f"TZ={self.variables['TZ']} is the zone of the commands, not of their schedules; cron "
                "takes CRON_TZ for those"
            )
        known = {"CRON_TZ", "TZ", *_WITHOUT_EFFECT, *_SHELL_VARIABLES}
        if others := sorted(set(self.variables) - known):
            notes.append(
                f"{', '.join(others)}: set it in the worker's environment if a command needs it"
            )
        return notes


def _split(line: str) -> tuple[str, str]:
    """The five fields (a macro is written out), and what follows them."""
    words = line.split(None, _FIELDS)
    if words[0].startswith("@"):
        if words[0] not in MACROS:
            _check(words[0], "UTC")
        return MACROS[words[0]], line[len(words[0]) :].strip()
    fields = " ".join(words[:_FIELDS])
    return fields, words[_FIELDS] if len(words) > _FIELDS else ""


def _check(fields: str, zone: str) -> None:
    try:
        parse_crontab(fields, zone)
    except ExpressionError as error:
        raise record.Unsayable(str(error).removeprefix(f"crontab line {fields!r}: ")) from None


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
